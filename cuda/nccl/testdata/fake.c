// A libnccl.so.2 for tests of the calls into one: its ranks are threads of one process, the memory is the fake libcuda's, and
// what streams are given runs at once, so that calls wait for each other. From the environment:
//
//   FAKE_NCCL_VERSION   what ncclGetVersion tells; 22107 by default
//   FAKE_NCCL_FAIL      NAME=CODE makes a function fail
//   FAKE_NCCL_ASYNC     what ncclCommGetAsyncError finds

#define _GNU_SOURCE
#include "../api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, CUDA = 1, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE = 6, RANKS = 8 };

struct message { const char *from; size_t bytes; int taken; struct message *next; };
struct group {
	char id[128];
	int size, joined, left, arrived, round, aborted;
	const void *parts[RANKS];
	struct message *mail[RANKS][RANKS];
};
struct ncclComm { struct group *group; int rank, device; };
struct operation { void *at; size_t bytes; int peer, send; ncclComm_t comm; };

static struct group groups[64];
static int count;
static unsigned char next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static __thread struct operation queue[64];
static __thread int queued, grouping, broken; // broken: a call within the group has failed, so that it does nothing

static int fails(const char *name) {
	const char *v = getenv("FAKE_NCCL_FAIL");
	size_t n = strlen(name);
	return v && !strncmp(v, name, n) && v[n] == '=' ? atoi(v + n + 1) : OK;
}
#define ENTER(name) do { int code = fails(#name); if (code) return code; } while (0)

// The device that is current on this thread, as the fake libcuda knows it.
static int current(void) {
	const char *name = getenv("GOTRAIN_LIBCUDA");
	void *l = name ? dlopen(name, RTLD_NOLOAD | RTLD_NOW) : NULL;
	int (*f)(void) = l ? (int (*)(void))dlsym(l, "fake_current") : NULL;
	return f ? f() : -1;
}

// Waits, holding the lock, until a condition holds; the group may be aborted meanwhile.
#define AWAIT(g, condition) \
	while (!(g)->aborted && !(condition)) pthread_cond_wait(&changed, &lock); \
	if ((g)->aborted) { pthread_mutex_unlock(&lock); return REMOTE; }

ncclResult_t ncclGetVersion(int *version) {
	const char *v = getenv("FAKE_NCCL_VERSION");
	ENTER(ncclGetVersion);
	*version = v ? atoi(v) : 22107;
	return OK;
}
const char *ncclGetErrorString(ncclResult_t result) { return result == CUDA ? "unhandled cuda error" : result == INVALID_USAGE ? "invalid usage" : "as the test wants it"; }
#ifndef OLD
const char *ncclGetLastError(ncclComm_t comm) { return comm ? "of a communicator\n" : ""; }
#endif
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
	ENTER(ncclGetUniqueId);
	memset(id, 0, sizeof *id);
	id->internal[0] = ++next;
	id->internal[127] = 9;
	return OK;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
	struct group *g = NULL;
	ENTER(ncclCommInitRank);
	if (current() < 0) return CUDA;
	if (id.internal[127] != 9 || size > RANKS) return INVALID_ARGUMENT;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < count; i++)
		if (!memcmp(groups[i].id, id.internal, 128)) g = &groups[i];
	if (!g) {
		g = &groups[count++];
		memcpy(g->id, id.internal, 128);
		g->size = size;
	}
	g->joined++;
	pthread_cond_broadcast(&changed);
	AWAIT(g, g->joined == size);
	*comm = malloc(sizeof **comm);
	**comm = (struct ncclComm){g, rank, current()};
	pthread_mutex_unlock(&lock);
	return OK;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
	ENTER(ncclCommDestroy);
	if (current() != comm->device) return CUDA;
	free(comm);
	return OK;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
	if (current() != comm->device) return CUDA;
	pthread_mutex_lock(&lock);
	comm->group->aborted = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return OK;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
	const char *v = getenv("FAKE_NCCL_ASYNC");
	ENTER(ncclCommGetAsyncError);
	*error = v ? atoi(v) : OK;
	return comm ? OK : INVALID_ARGUMENT;
}

// All ranks come, with a part each, before any goes on.
static ncclResult_t meet(ncclComm_t comm, const void *part) {
	struct group *g = comm->group;
	int round;
	pthread_mutex_lock(&lock);
	round = g->round;
	g->parts[comm->rank] = part;
	if (++g->arrived == g->size) {
		g->arrived = 0;
		g->round++;
		pthread_cond_broadcast(&changed);
	}
	AWAIT(g, g->round != round);
	pthread_mutex_unlock(&lock);
	return OK;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
	float *sums;
	ncclResult_t rc;
	ENTER(ncclAllReduce);
	if (current() != comm->device) return CUDA;
	if (type != 7 || op != 0 || !stream || from != to) return INVALID_ARGUMENT;
	if ((rc = meet(comm, from))) return rc;
	sums = calloc(count, sizeof *sums);
	for (int r = 0; r < comm->group->size; r++)
		for (size_t i = 0; i < count; i++) sums[i] += ((const float *)comm->group->parts[r])[i];
	rc = meet(comm, from);
	memcpy(to, sums, count * sizeof *sums);
	free(sums);
	return rc ? rc : meet(comm, from);
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
	ncclResult_t rc;
	ENTER(ncclAllGather);
	if (current() != comm->device) return CUDA;
	if (type != 1 || !stream || from != (char *)to + comm->rank * count) return INVALID_ARGUMENT;
	if ((rc = meet(comm, from))) return rc;
	for (int r = 0; r < comm->group->size; r++)
		if (r != comm->rank) memcpy((char *)to + r * count, comm->group->parts[r], count);
	return meet(comm, from);
}

ncclResult_t ncclGroupStart() { ENTER(ncclGroupStart); grouping = 1; queued = broken = 0; return OK; }

static ncclResult_t enqueue(const char *name, void *at, size_t bytes, ncclDataType_t type, int peer, int send, ncclComm_t comm, cudaStream_t stream) {
	int code = fails(name);
	if (code) return broken = code;
	if (current() != comm->device) return broken = CUDA;
	if (!grouping) return INVALID_USAGE;
	if (type != 1 || !stream || queued == 64) return broken = INVALID_ARGUMENT;
	queue[queued++] = (struct operation){at, bytes, peer, send, comm};
	return OK;
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
	return enqueue("ncclSend", (void *)from, count, type, peer, 1, comm, stream);
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
	return enqueue("ncclRecv", to, count, type, peer, 0, comm, stream);
}
ncclResult_t ncclGroupEnd() {
	struct message *sent[64];
	ncclResult_t rc = OK;
	if (!grouping) return INVALID_USAGE;
	grouping = 0;
	ENTER(ncclGroupEnd);
	if (broken) return broken;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < queued; i++) {
		struct operation *o = &queue[i];
		struct message **end = &o->comm->group->mail[o->comm->rank][o->peer];
		if (!o->send) continue;
		while (*end) end = &(*end)->next;
		sent[i] = *end = malloc(sizeof **end);
		**end = (struct message){o->at, o->bytes, 0, NULL};
	}
	pthread_cond_broadcast(&changed);
	for (int i = 0; i < queued; i++) {
		struct operation *o = &queue[i];
		struct group *g = o->comm->group;
		struct message **first = &g->mail[o->peer][o->comm->rank];
		if (o->send) continue;
		AWAIT(g, *first);
		if ((*first)->bytes != o->bytes) rc = INVALID_ARGUMENT;
		else memcpy(o->at, (*first)->from, o->bytes);
		(*first)->taken = 1;
		*first = (*first)->next;
		pthread_cond_broadcast(&changed);
	}
	for (int i = 0; i < queued; i++) {
		if (!queue[i].send) continue;
		AWAIT(queue[i].comm->group, sent[i]->taken);
		free(sent[i]);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}
