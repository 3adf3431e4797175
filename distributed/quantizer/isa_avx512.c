// The quantizer for AVX-512 (F, BW, DQ, VL: Intel from Skylake-SP, AMD from Zen 4).
#if defined(__x86_64__)

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2,popcnt")
#define ISA avx512
#include "vector_avx512.h"
#include "quantizer_template.h"

#endif
