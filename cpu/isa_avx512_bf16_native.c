// The kernels for AVX-512 (F, BW, DQ, VL), on bfloat16 that the processor converts to and multiplies (AMD from Zen 4, Intel from
// Cooper Lake).
#if defined(__x86_64__)

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,avx512bf16")
#define ISA avx512
#define TYPE bf16_native
#define BF16 1
#define BLOCK 16
#include "isa_template.h"

#endif
