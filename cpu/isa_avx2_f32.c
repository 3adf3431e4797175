// The kernels for AVX2 and FMA (Intel from Haswell, AMD from Zen), on float32.
#if defined(__x86_64__)

#pragma GCC target("avx2,fma")
#define ISA avx2
#define TYPE f32
#define BF16 0
#define BLOCK 8
#include "isa_template.h"

#endif
