//go:build mpi

#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static MPI_Comm comm = MPI_COMM_NULL; // a process can join but once
static MPI_Comm roll = MPI_COMM_NULL; // for roll calls

int gotrain_mpi_version(char *text, int length) {
	char all[MPI_MAX_LIBRARY_VERSION_STRING];
	int n = 0;
	if (MPI_Get_library_version(all, &n) != MPI_SUCCESS) return 1;
	snprintf(text, length, "%.*s", n, all);
	return 0;
}

// Says what has failed, and returns whether anything has.
static int failed(struct gotrain_mpi *m, const char *call, int code) {
	char text[MPI_MAX_ERROR_STRING] = "";
	int n = 0;
	if (code == MPI_SUCCESS) return 0;
	MPI_Error_string(code, text, &n);
	snprintf(m->error, sizeof m->error, "%s: %.*s", call, n, text);
	return 1;
}

static int enter(struct gotrain_mpi *m) {
	int already = 0, provided = 0;
	MPI_Initialized(&already);
	if (already) {
		snprintf(m->error, sizeof m->error, "this process has joined before");
		return 1;
	}
	if (failed(m, "MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided))) return 1;
	if (provided < MPI_THREAD_FUNNELED) {
		snprintf(m->error, sizeof m->error, "this MPI does not work in a process with several threads: it lacks MPI_THREAD_FUNNELED");
		return 1;
	}
	return 0;
}

int gotrain_mpi_init(struct gotrain_mpi *m) {
	struct sigaction before[_NSIG], after;
	int i, rc, found = 0, *limit, first, told[2] = {m->workers, -m->workers}, most[2];
	char name[MPI_MAX_PROCESSOR_NAME] = "", own[MPI_NAME];
	MPI_Comm host;

	m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->wake < 0) {
		snprintf(m->error, sizeof m->error, "eventfd: %s", strerror(errno));
		return 1;
	}
	prctl(PR_SET_TIMERSLACK, 1UL); // naps of this thread are short

	// Go needs its own signal handlers, on its own stacks. Open MPI's are turned off here, and whatever a library has
	// installed all the same is undone: UCX has handlers for faults, some MPICH for SIGUSR1.
	setenv("OMPI_MCA_opal_signal", "", 1);
	for (i = 1; i < _NSIG; i++) sigaction(i, NULL, &before[i]);
	rc = enter(m);
	for (i = 1; i < _NSIG; i++)
		if (sigaction(i, NULL, &after) == 0 && after.sa_sigaction != before[i].sa_sigaction) sigaction(i, &before[i], NULL);
	if (rc) return rc;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (failed(m, "MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &comm))) return 1;
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	if (failed(m, "MPI_Comm_dup", MPI_Comm_dup(comm, &roll))) return 1;
	MPI_Comm_set_errhandler(roll, MPI_ERRORS_RETURN);
	MPI_Comm_rank(comm, &m->rank);
	MPI_Comm_size(comm, &m->size);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found);
	m->tag_limit = found ? *limit : 32767; // which the standard guarantees

	if (failed(m, "MPI_Comm_split_type", MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host))) return 1;
	MPI_Comm_size(host, &m->local_size);
	MPI_Comm_rank(host, &m->local_rank);
	first = m->local_rank == 0;
	MPI_Comm_free(&host);
	if (failed(m, "MPI_Allreduce", MPI_Allreduce(&first, &m->hosts, 1, MPI_INT, MPI_SUM, comm))) return 1;
	if (failed(m, "MPI_Allreduce", MPI_Allreduce(told, most, 2, MPI_INT, MPI_MAX, comm))) return 1;
	if (most[0] != -most[1]) {
		snprintf(m->error, sizeof m->error, "some processes have %d workers and others %d: give all the same distributed.workers", -most[1], most[0]);
		return 1;
	}
	i = 0;
	MPI_Get_processor_name(name, &i);
	memset(own, 0, sizeof own);
	snprintf(own, sizeof own, "%.*s", i, name);
	m->names = calloc(m->size, MPI_NAME);
	m->present = calloc(m->size, 1);
	if (!m->names || !m->present) abort();
	m->present[m->rank] = PRESENT;
	return failed(m, "MPI_Allgather", MPI_Allgather(own, MPI_NAME, MPI_CHAR, m->names, MPI_NAME, MPI_CHAR, comm));
}

int gotrain_mpi_finalize(struct gotrain_mpi *m) {
	if (roll != MPI_COMM_NULL) MPI_Comm_free(&roll);
	if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
	if (failed(m, "MPI_Finalize", MPI_Finalize())) return 1;
	free(m->names);
	free(m->present);
	free(m->requests);
	free(m->statuses);
	free(m->done);
	return 0;
}

void gotrain_mpi_abort(void) { MPI_Abort(MPI_COMM_WORLD, 1); }

void gotrain_mpi_grow(struct gotrain_mpi *m, int slots) {
	m->requests = realloc(m->requests, slots * sizeof(MPI_Request));
	m->statuses = realloc(m->statuses, slots * sizeof(MPI_Status));
	m->done = realloc(m->done, slots * sizeof(int));
	if (!m->requests || !m->statuses || !m->done) abort();
	for (; m->slots < slots; m->slots++) ((MPI_Request *)m->requests)[m->slots] = MPI_REQUEST_NULL;
}

int gotrain_mpi_post(struct gotrain_mpi *m, int slot, void *buffer, int bytes, int peer, int tag, int send) {
	MPI_Request *r = (MPI_Request *)m->requests + slot;
	if (send) return failed(m, "MPI_Isend", MPI_Isend(buffer, bytes, MPI_BYTE, peer, tag, comm, r));
	return failed(m, "MPI_Irecv", MPI_Irecv(buffer, bytes, MPI_BYTE, peer, tag, comm, r));
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// Tells all other processes that this one is there, in a round of the roll call, which is the message's tag, or that it is
// leaving, which is 0.
static void announce(struct gotrain_mpi *m, int round) {
	static char here = 1;
	MPI_Request r;
	int p;
	for (p = 0; p < m->size; p++) // who is lost does not take it: nobody waits for these
		if (p != m->rank && MPI_Isend(&here, 1, MPI_BYTE, p, round, roll, &r) == MPI_SUCCESS) MPI_Request_free(&r);
}

// Begins a round, in which nobody has answered yet.
static void begin(struct gotrain_mpi *m, int round) {
	int p;
	m->round = round;
	m->called = now();
	for (p = 0; p < m->size; p++)
		if (p != m->rank && m->present[p] == PRESENT) m->present[p] = ABSENT;
	m->heard = 1;
	announce(m, round);
}

void gotrain_mpi_call(struct gotrain_mpi *m) {
	const int64_t moment = 600000000; // twice as long as who calls waits for answers, for two may call one after the other
	if (m->round > 0 && (now() - m->called < moment || m->round == m->tag_limit)) return;
	begin(m, m->round + 1);
}

void gotrain_mpi_leaving(struct gotrain_mpi *m) {
	if (m->present[m->rank] == LEAVING) return;
	m->present[m->rank] = LEAVING;
	announce(m, 0);
}

// Notes who has answered a roll call, and answers.
static int hear(struct gotrain_mpi *m) {
	int there = 0;
	char here;
	MPI_Status s;
	while (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, roll, &there, &s) == MPI_SUCCESS && there) {
		if (MPI_Recv(&here, 1, MPI_BYTE, s.MPI_SOURCE, s.MPI_TAG, roll, &s) != MPI_SUCCESS) break;
		if (s.MPI_TAG > m->round) begin(m, s.MPI_TAG);
		if (s.MPI_TAG == 0) m->present[s.MPI_SOURCE] = LEAVING;
		else if (s.MPI_TAG == m->round && m->present[s.MPI_SOURCE] == ABSENT) m->present[s.MPI_SOURCE] = PRESENT;
		m->heard = 1;
	}
	return m->heard;
}

// Sleeps until woken (returns 1) or for a time in nanoseconds.
static int asleep(struct gotrain_mpi *m, int64_t time) {
	struct pollfd wake = {m->wake, POLLIN, 0};
	struct timespec t = {time / 1000000000, time % 1000000000};
	uint64_t count;
	if (ppoll(&wake, 1, &t, NULL) <= 0) return 0;
	return read(m->wake, &count, sizeof count) == sizeof count;
}

int gotrain_mpi_wait(struct gotrain_mpi *m, int outstanding) {
	const int64_t shortest = 20000, longest = 1000000, idle = 50000000;
	int64_t start = now(), heard = start, nap;
	int rc, class, done, i;
	if (outstanding == 0) {
		while (!asleep(m, idle))
			if (hear(m)) break;
		return 0;
	}
	for (;;) {
		// One call moves messages on, and the next sees that they are done.
		for (i = 0; i < 2; i++) {
			rc = MPI_Testsome(m->slots, m->requests, &done, m->done, m->statuses);
			MPI_Error_class(rc, &class);
			if (class != MPI_SUCCESS && class != MPI_ERR_IN_STATUS) {
				failed(m, "MPI_Testsome", rc);
				return -1;
			}
			if (done != MPI_UNDEFINED && done > 0) {
				if (class == MPI_SUCCESS) // else MPI has set these
					for (i = 0; i < done; i++) ((MPI_Status *)m->statuses)[i].MPI_ERROR = MPI_SUCCESS;
				return done;
			}
		}
		if (now() - heard > 10 * longest) {
			heard = now();
			if (hear(m)) return 0;
		}
		// The cores are for computing: a nap lengthens the wait by an eighth at most.
		nap = (now() - start) / 8;
		if (asleep(m, nap < shortest ? shortest : nap > longest ? longest : nap)) return 0;
	}
}

void gotrain_mpi_wake(struct gotrain_mpi *m) {
	uint64_t one = 1;
	while (write(m->wake, &one, sizeof one) < 0 && errno == EINTR) {}
}

int gotrain_mpi_result(struct gotrain_mpi *m, int i, int *bytes) {
	MPI_Status *s = (MPI_Status *)m->statuses + i;
	int class = MPI_SUCCESS;
	*bytes = -1;
	if (s->MPI_ERROR == MPI_SUCCESS) {
		MPI_Get_count(s, MPI_BYTE, bytes);
		return MESSAGE_WHOLE;
	}
	MPI_Error_class(s->MPI_ERROR, &class);
	failed(m, "MPI", s->MPI_ERROR);
	return class == MPI_ERR_TRUNCATE ? MESSAGE_LENGTH : MESSAGE_LOST;
}
