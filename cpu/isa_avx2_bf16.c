// The kernels for AVX2 and FMA (Intel from Haswell, AMD from Zen), on bfloat16.
#if defined(__x86_64__)

#pragma GCC target("avx2,fma")
#define ISA avx2
#define TYPE bf16
#define BF16 1
#define BLOCK 8
#include "isa_template.h"

#endif
