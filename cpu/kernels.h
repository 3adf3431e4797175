// kernels.h declares gotrain's own CPU kernels: what oneDNN lacks (fused batch norm, the update) and where it is slow
// (3x3 convolutions with stride 1 at few channels, by Winograd's method; gradients of strided weights in bfloat16).
//
// Activations are blocked: [N][C/B][H][W][B], with B the block of the table (16 with AVX-512, 8 otherwise), C a multiple
// of B, stored as float32 or bfloat16 (a table has both). All is
// computed in float32, but that the convolutions' gradients multiply bfloat16, and sum float32, where the processor does. What a convolution gives and batch
// norm reads is float32 in both: rounding there is what would cost bfloat16 its accuracy, since it flips ReLUs. Weights and statistics are plain
// float32: [out][in][kh][kw] and [C]. Kernels run on `threads` OpenMP threads of the calling OS thread. Every sum runs in
// an order that depends on the shapes and on `threads` only, so that equal runs give equal bits.
#ifndef GOTRAIN_KERNELS_H
#define GOTRAIN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

// A shape of an activation: images, channels, height and width.
typedef struct { int n, c, h, w; } gt_shape;

// Batch norm in training, with what is fused into it: y = relu?(gamma * (x - mean) * invstd + beta + addend?).
typedef struct {
	gt_shape s;
	int threads;
	int relu;            // 1: rectify y
	float epsilon;       // added to the biased variance of the batch
	float update;        // running = (1 - update) * running + update * batch (unbiased variance where the count is over 1)
	const float *x;      // blocked as an activation
	const void *addend;  // activation, or NULL
	const float *gamma, *beta;
	float *mean, *invstd;        // [C], of the batch; written by training, read by backward
	float *running_mean, *running_var; // [C]
	void *y;             // activation; may be x in inference where it is stored as float32
	// Backward: the gradient of y is dy[0], or dy[0] + dy[1] where dy[1] is not NULL. g = that, zeroed where relu is set and
	// y <= 0; y is NULL where it follows from x (there was no addend), which saves reading it. dx and the sums are those of the normalization for g; g itself is stored in daddend where that is not NULL.
	const void *dy[2];
	void *dx;            // activation, may be dy[0]
	void *daddend;       // activation, or NULL; may be dy[0] or dy[1]; never dx
	float *dgamma, *dbeta; // [C]
	float *scratch;      // bn_scratch(...) floats
} gt_batchnorm;

// Batch norm over the images of several workers, in training: sync_moments and sync_sums find what workers exchange, and
// sync_normalize and sync_propagate go on with what comes of it. What b says of training and backward holds, but that mean,
// invstd, dgamma, dbeta and the running statistics are the caller's to write.
typedef struct {
	gt_batchnorm b;
	double *share;       // [2][C]: means and sums of squared deviations of x; sums of g and of g * xhat
	const float *means;  // [2][C], of g and of g * xhat over the images of all workers; read by sync_propagate
} gt_syncnorm;

// A 3x3 convolution with stride 1 and padding 1 by Winograd's method; c_in and c_out are multiples of B.
typedef struct {
	gt_shape s;          // of the input: s.c is c_in
	int c_out;
	int threads;
	const void *x;       // forward, backward weights: the input
	const float *weight; // plain [c_out][c_in][3][3]
	float *y;            // forward: the output, blocked as an activation
	const void *dy;      // backward: the gradient of the output
	void *dx;            // backward data: the gradient of the input
	float *dweight;      // backward weights: plain [c_out][c_in][3][3]
	float *scratch;      // winograd_scratch(...) floats
} gt_winograd;

// The window of a convolution: kernel x kernel taps.
typedef struct { int kernel, stride, pad; } gt_taps;

// The gradient of the weights of a strided convolution; the channels of x and y are multiples of B.
typedef struct {
	gt_shape s, y;       // of the input and of the output
	gt_taps window;
	int threads;
	const void *x, *dy;  // activations
	float *dweight;      // plain [c_out][c_in][kernel][kernel]
	float *scratch;      // strided_scratch(...) floats
} gt_strided;

enum { GT_FORWARD = 0, GT_BACKWARD_DATA = 1, GT_BACKWARD_WEIGHTS = 2 };

// The kernels of one instruction set and one storage type.
typedef struct {
	int block;           // B

	size_t (*bn_scratch)(gt_shape s, int threads);
	void (*bn_train)(const gt_batchnorm *);    // forward with the batch's statistics; updates the running ones
	void (*bn_infer)(const gt_batchnorm *);    // forward with the running statistics
	void (*bn_backward)(const gt_batchnorm *); // reads mean and invstd as bn_train left them

	void (*sync_moments)(const gt_syncnorm *);   // of x, to share
	void (*sync_normalize)(const gt_syncnorm *); // forward with mean and invstd
	void (*sync_sums)(const gt_syncnorm *);      // to share; stores daddend
	void (*sync_propagate)(const gt_syncnorm *); // dx; daddend is there

	// Unfused elementwise operations, for plans compiled without fusion. n counts values.
	void (*relu)(const void *x, void *y, size_t n, int threads);
	void (*relu_backward)(const void *y, const void *dy, void *dx, size_t n, int threads);
	void (*add)(const void *a, const void *b, void *y, size_t n, int threads); // y may be a or b

	// Shortcut A: y takes every stride-th row and column of x in its first s.c channels, zeros in the others.
	void (*subsample)(const void *x, void *y, gt_shape s, int c_out, int stride, int threads);
	void (*subsample_backward)(const void *dy, void *dx, gt_shape s, int c_out, int stride, int threads);

	// Global average pooling to plain float32 [N][C] and back.
	void (*avgpool)(const void *x, float *y, gt_shape s, int threads);
	void (*avgpool_backward)(const float *dy, void *dx, gt_shape s, int threads);

	// Winograd: `what` is one of the enum above. winograd_supports says whether the kernel takes the shape and is expected to
	// be faster than a direct convolution. winograd_scratch counts floats (weights in the transform's domain, tiles).
	int (*winograd_supports)(gt_shape s, int c_out, int what);
	size_t (*winograd_scratch)(gt_shape s, int c_out, int threads, int what);
	void (*winograd_forward)(const gt_winograd *);
	void (*winograd_backward_data)(const gt_winograd *);
	void (*winograd_backward_weights)(const gt_winograd *);

	// strided_scratch counts floats; 0 where the kernel does not take the shape or a direct convolution is faster.
	size_t (*strided_scratch)(gt_shape s, int c_out, gt_taps window, int threads);
	void (*strided_weights)(const gt_strided *);
} gt_kernels;

// The table for an instruction set ("avx512bf16", "avx512", "avx2", "portable"; NULL or "": the best of this machine) and 4 or
// 2 bytes a value. NULL where the machine lacks it. avx512bf16 is avx512 with bfloat16 that the processor converts to and multiplies by itself.
const gt_kernels *gt_kernels_for(const char *isa, int bytes);

// The best instruction set of this machine.
const char *gt_kernels_isa(void);

// Plain float32 kernels, the same for all storage types.

// Softmax cross-entropy of logits [n][classes] in training or evaluation. weight[i] is 1, or 0 for a sample that does not
// count; divisor is the global sample count. loss gets the sum over samples of weight * cross-entropy (not divided),
// errors the weighted count of samples whose largest logit is not the label's (the first of equals wins; a NaN is an
// error). dlogits, where not NULL, gets weight * (softmax - onehot) / divisor.
void gt_softmax_xent(const float *logits, const int32_t *labels, const float *weight, int n, int classes, float divisor,
	double *loss, double *errors, float *dlogits);

// One update over a range of the arenas. d = (g * scale + l2 * w) * gain.
//   sgd:      w -= rate * d
//   momentum: m = momentum * m + d;  w -= rate * (nesterov ? d + momentum * m : m)
// gain is 1 - momentum with unit gain, else 1. scale is 1, or what clipping by norm asks for.
typedef struct {
	size_t n;
	int threads;
	float rate, momentum, gain, l2, scale;
	int nesterov;
	float *w, *m;        // m is NULL for plain sgd
	const float *g;
} gt_sgd;
void gt_sgd_update(const gt_sgd *);

// Adam (Kingma and Ba, 2015, algorithm 1) of d: step counts from 1; beta1^step and beta2^step are
// given as bias1 = 1 - beta1^step, bias2 = 1 - beta2^step.
typedef struct {
	size_t n;
	int threads;
	float rate, beta1, beta2, epsilon, gain, l2, scale, bias1, bias2;
	float *w, *m, *v;
	const float *g;
} gt_adam;
void gt_adam_update(const gt_adam *);

// The sum of squares, in double, in a fixed order; NaN or infinity where a value is not finite.
double gt_sum_squares(const float *x, size_t n, int threads);

#endif
