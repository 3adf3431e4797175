// onednn.h narrows oneDNN's C API, of which versions 2 and 3 differ, to what a step needs: primitives that are created
// once for fixed memory and then only executed.
#ifndef GOTRAIN_ONEDNN_H
#define GOTRAIN_ONEDNN_H

#include <stddef.h>

// A oneDNN engine with its stream, for one OS thread. block is the channel block of activations, nChw16c or nChw8c, and
// divides their channels.
typedef struct gt_engine gt_engine;

// A primitive with the memory that it works on.
typedef struct gt_primitive gt_primitive;

// All functions that return int return a dnnl_status_t, 0 for success.
int gt_engine_create(gt_engine **e, int block);
void gt_engine_destroy(gt_engine *e);

// A sliding window over n images of c channels, h rows and w columns. plain: the source is nchw whatever its channels, as
// images are. bf16: activations and their gradients are bfloat16, but for what a convolution gives forward, which is float32
// always.
typedef struct { int n, c, h, w, c_out, kernel, stride, pad, bf16, plain; } gt_window;

// what: GT_FORWARD, GT_BACKWARD_DATA or GT_BACKWARD_WEIGHTS of kernels.h. The weights have the layout that the primitive
// likes; their gradient is float32 always.
int gt_convolution(gt_engine *e, int what, gt_window w, gt_primitive **p);
// Max pooling, GT_FORWARD (with a workspace where training is set) or GT_BACKWARD_DATA.
int gt_maxpool(gt_engine *e, int what, gt_window w, int training, gt_primitive **p);
// A fully connected layer with plain float32 operands.
int gt_dense(gt_engine *e, int what, int n, int in, int out, gt_primitive **p);
// The source of a convolution (result: 0) or its result (1) from the type `from` to the type `to`: 1 for bfloat16, 0 for
// float32.
int gt_cast(gt_engine *e, gt_window w, int result, int from, int to, gt_primitive **p);
// Plain float32 weights to the layout of a convolution's weights, or such a gradient to plain (back). *p is NULL where the
// layouts are the same.
int gt_weights_reorder(gt_engine *e, gt_primitive *conv, gt_window w, int back, gt_primitive **p);

// The operands of a primitive.
enum { GT_SRC, GT_WEIGHTS, GT_BIAS, GT_DST, GT_DIFF_SRC, GT_DIFF_WEIGHTS, GT_DIFF_BIAS, GT_DIFF_DST, GT_WORKSPACE, GT_SCRATCHPAD };

// The bytes of an operand; 0 for one that the primitive does not have.
size_t gt_primitive_bytes(gt_primitive *p, int operand);
// Says where an operand lies. Every operand of non-zero size needs it before the primitive runs.
int gt_primitive_bind(gt_primitive *p, int operand, void *memory);
// Runs a gt_primitive, for a program.
void gt_primitive_run(const void *p);
void gt_primitive_destroy(gt_primitive *p);

// "2.6.3" and the best instruction set that oneDNN uses here.
const char *gt_dnnl_version(void);
const char *gt_dnnl_isa(void);

#endif
