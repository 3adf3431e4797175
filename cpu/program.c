#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
	void (*run)(const void *args);
	const void *args;
	void *copy; // args where the program owns them
} call;

struct gt_program {
	int n, room;
	call *calls;
};

// A few kilobytes that are not there: the process is past reporting an error to its user in any other way.
static void *there(void *memory) {
	if (memory) return memory;
	fprintf(stderr, "gotrain: no memory for the calls of a program\n");
	abort();
}

gt_program *gt_program_create(void) { return there(calloc(1, sizeof(gt_program))); }

void gt_program_destroy(gt_program *p) {
	if (!p) return;
	for (int i = 0; i < p->n; i++) free(p->calls[i].copy);
	free(p->calls);
	free(p);
}

static call *append(gt_program *p) {
	if (p->n == p->room) {
		p->room = p->room ? 2 * p->room : 64;
		p->calls = there(realloc(p->calls, p->room * sizeof *p->calls));
	}
	return &p->calls[p->n++];
}

void gt_program_add(gt_program *p, void (*run)(const void *), const void *args, size_t size) {
	void *copy = there(malloc(size));
	memcpy(copy, args, size);
	*append(p) = (call){run, copy, copy};
}

void gt_program_call(gt_program *p, void (*run)(const void *), const void *args) {
	*append(p) = (call){run, args, NULL};
}

int gt_program_length(const gt_program *p) { return p->n; }

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

void gt_program_run(const gt_program *p, int from, int to, double *seconds) {
	for (int i = from; i < to; i++) {
		double start = seconds ? now() : 0;
		p->calls[i].run(p->calls[i].args);
		if (seconds) seconds[i] = now() - start;
	}
}
