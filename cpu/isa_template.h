// isa_template.h is a template: the kernels of one instruction set and one storage type, and their table. The file that includes
// it sets the compiler's target and defines ISA, TYPE, BF16 (1: the storage type is bfloat16, 0: float) and BLOCK.

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels.h"

#define JOIN_OF(name, isa, type) name##_##isa##_##type
#define JOIN(name, isa, type) JOIN_OF(name, isa, type)
#define NAME(name) JOIN(name, ISA, TYPE) // a name of its own for each instruction set and storage type

#include "vector_template.h"
#include "batchnorm_template.h"
#include "batchnorm_backward_template.h"
#include "syncnorm_template.h"
#include "elementwise_template.h"
#include "winograd_template.h"
#include "strided_template.h"

const gt_kernels NAME(gt_kernels) = {
	.block = BLOCK,
	.bn_scratch = bn_scratch,
	.bn_train = bn_train,
	.bn_infer = bn_infer,
	.bn_backward = bn_backward,
	.sync_moments = sync_moments,
	.sync_normalize = sync_normalize,
	.sync_sums = sync_sums,
	.sync_propagate = sync_propagate,
	.relu = relu,
	.relu_backward = relu_backward,
	.add = add,
	.subsample = subsample,
	.subsample_backward = subsample_backward,
	.avgpool = avgpool,
	.avgpool_backward = avgpool_backward,
	.winograd_supports = NAME(winograd_supports),
	.winograd_scratch = NAME(winograd_scratch),
	.winograd_forward = NAME(winograd_forward),
	.winograd_backward_data = NAME(winograd_backward_data),
	.winograd_backward_weights = NAME(winograd_backward_weights),
	.strided_scratch = NAME(strided_scratch),
	.strided_weights = NAME(strided_weights),
};
