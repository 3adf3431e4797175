// The calls into MPI. All but gotrain_mpi_version and gotrain_mpi_wake are made by one thread.

#ifndef GOTRAIN_MPI_H
#define GOTRAIN_MPI_H

#include <stdint.h>

enum { MPI_NAME = 256 };

struct gotrain_mpi {
	int workers;           // of the job, as this process was told; set before gotrain_mpi_init
	int rank, size;
	int hosts, local_size, local_rank; // hosts of the job, processes on this one, which of them this is
	int tag_limit;
	char *names;           // host of each process, MPI_NAME bytes each
	int wake;              // eventfd; never closed, so that a late wake does no harm
	int slots;             // requests that may be under way
	void *requests;        // MPI_Request[slots]
	void *statuses;        // MPI_Status[slots]
	int *done;             // the slots that gotrain_mpi_wait has found done
	char *present;         // by process: ABSENT, PRESENT or LEAVING, as far as is known
	int heard;             // present has changed since this was set to 0
	int round;             // of the roll calls, from 1; 0: there was none
	int64_t called;        // when it began, in nanoseconds
	char error[512];       // of the function that returned non-zero
};

int gotrain_mpi_version(char *text, int length);

int gotrain_mpi_init(struct gotrain_mpi *m);
int gotrain_mpi_finalize(struct gotrain_mpi *m);
void gotrain_mpi_abort(void);

// Starts a message in a slot that is free.
int gotrain_mpi_post(struct gotrain_mpi *m, int slot, void *buffer, int bytes, int peer, int tag, int send);
void gotrain_mpi_grow(struct gotrain_mpi *m, int slots);

// Whether a process has answered the last roll call, or fails for a reason of its own, which is told once and for all.
enum { ABSENT, PRESENT, LEAVING };

// Calls the roll, unless that was done a moment ago, by whomever: forgets who has answered before, and tells all other
// processes that this one is there. Each of them answers in the same way.
void gotrain_mpi_call(struct gotrain_mpi *m);
void gotrain_mpi_leaving(struct gotrain_mpi *m);

// Waits until messages are done, and returns how many, or 0 when it is woken or has heard of somebody, or -1. It answers roll
// calls, also where no messages are outstanding.
int gotrain_mpi_wait(struct gotrain_mpi *m, int outstanding);

// Ends the wait under way, or the next one. Any thread may call it.
void gotrain_mpi_wake(struct gotrain_mpi *m);

enum { MESSAGE_WHOLE, MESSAGE_LENGTH, MESSAGE_LOST };

// What has become of the i-th message of those done: bytes is the length that has come.
int gotrain_mpi_result(struct gotrain_mpi *m, int i, int *bytes);

#endif
