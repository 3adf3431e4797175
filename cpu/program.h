// program.h runs a prepared step: a list of calls with their arguments in C memory, so that one crossing from Go runs as
// many of them as the overlap with an exchange allows.
#ifndef GOTRAIN_PROGRAM_H
#define GOTRAIN_PROGRAM_H

#include <stddef.h>

typedef struct gt_program gt_program;

gt_program *gt_program_create(void);
void gt_program_destroy(gt_program *p);

// Appends run(args): gt_program_add with a copy of the size bytes at args, gt_program_call with args itself.
void gt_program_add(gt_program *p, void (*run)(const void *args), const void *args, size_t size);
void gt_program_call(gt_program *p, void (*run)(const void *args), const void *args);
int gt_program_length(const gt_program *p);

// Runs the calls [from, to). Where seconds is not NULL, seconds[i] gets the time of call i.
void gt_program_run(const gt_program *p, int from, int to, double *seconds);

#endif
