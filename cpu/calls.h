// calls.h gives kernels of kernels.h the form that a program calls: one argument, a struct of all.
#ifndef GOTRAIN_CALLS_H
#define GOTRAIN_CALLS_H

#include "kernels.h"

// What the kernels without a struct of their own need.
typedef struct {
	const gt_kernels *k;
	const void *a, *b;
	void *y;
	gt_shape s;
	size_t n;
	int c_out, stride, threads;
} gt_simple;

typedef struct { const gt_kernels *k; gt_batchnorm b; } gt_batchnorm_call;
typedef struct { const gt_kernels *k; gt_winograd w; } gt_winograd_call;
typedef struct { const gt_kernels *k; gt_strided s; } gt_strided_call;

typedef struct {
	const float *logits, *weight;
	const int32_t *labels;
	const float *divisor;
	int n, classes;
	double *loss, *errors;
	float *dlogits;
} gt_loss_call;

void gt_call_relu(const void *);
void gt_call_relu_backward(const void *);
void gt_call_add(const void *);
void gt_call_subsample(const void *);
void gt_call_subsample_backward(const void *);
void gt_call_avgpool(const void *);
void gt_call_avgpool_backward(const void *);
void gt_call_bn_train(const void *);
void gt_call_bn_infer(const void *);
void gt_call_bn_backward(const void *);
void gt_call_winograd_forward(const void *);
void gt_call_winograd_backward_data(const void *);
void gt_call_winograd_backward_weights(const void *);
void gt_call_strided_weights(const void *);
void gt_call_loss(const void *);

#endif
