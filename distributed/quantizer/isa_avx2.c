// The quantizer for AVX2, FMA and BMI2 (Intel from Haswell, AMD from Zen).
#if defined(__x86_64__)

#pragma GCC target("avx2,fma,bmi2,popcnt")
#define ISA avx2
#include "vector_avx2.h"
#include "quantizer_template.h"

#endif
