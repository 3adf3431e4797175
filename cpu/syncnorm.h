// syncnorm.h gives the kernels of synchronized batch norm the form that a program calls; see calls.h.
#ifndef GOTRAIN_SYNCNORM_H
#define GOTRAIN_SYNCNORM_H

#include "kernels.h"

typedef struct { const gt_kernels *k; gt_syncnorm s; } gt_syncnorm_call;

void gt_call_sync_moments(const void *);
void gt_call_sync_normalize(const void *);
void gt_call_sync_sums(const void *);
void gt_call_sync_propagate(const void *);

#endif
