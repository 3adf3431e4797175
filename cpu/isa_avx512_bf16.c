// The kernels for AVX-512 (F, BW, DQ, VL: Intel from Skylake-SP, AMD from Zen 4), on bfloat16.
#if defined(__x86_64__)

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#define ISA avx512
#define TYPE bf16
#define BF16 1
#define BLOCK 16
#include "isa_template.h"

#endif
