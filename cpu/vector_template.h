// vector_template.h is a template: one block of an activation as a vector of BLOCK floats, on GCC's vector extensions, and how
// it is stored: as float, or where BF16 is set as bfloat16, the upper half of a float.

typedef float vec __attribute__((vector_size(BLOCK * 4)));
typedef int32_t vec_int __attribute__((vector_size(BLOCK * 4)));
typedef uint32_t vec_bits __attribute__((vector_size(BLOCK * 4)));
typedef uint16_t vec_half __attribute__((vector_size(BLOCK * 2)));

// Reads and writes that need no alignment and may alias any type.
typedef float vec_any __attribute__((vector_size(BLOCK * 4), aligned(2), may_alias));
typedef uint16_t vec_half_any __attribute__((vector_size(BLOCK * 2), aligned(2), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vec splat(float f) { return f - (vec){}; }

// The block at p, of plain floats.
INLINE vec load_float(const float *p) { return *(const vec_any *)p; }
INLINE void store_float(float *p, vec v) { *(vec_any *)p = v; }

// v where the mask's lane is set, else 0. Masks come from comparisons: -1 or 0 a lane.
INLINE vec keep(vec_int mask, vec v) { return (vec)(mask & (vec_int)v); }

// v, or 0 where v is negative. A NaN stays, so that a diverged run shows.
#if defined(__AVX512F__)
INLINE vec rectify(vec v) { return (vec)_mm512_max_ps(_mm512_setzero_ps(), (__m512)v); }
#elif defined(__AVX2__)
INLINE vec rectify(vec v) { return (vec)_mm256_max_ps(_mm256_setzero_ps(), (__m256)v); }
#else
INLINE vec rectify(vec v) { return keep(~(v < 0), v); }
#endif

// Between 16 and 32 bits a lane; narrow's values fit. GCC's own conversions take twice as many instructions.
#if defined(__AVX512F__)
INLINE vec_bits widen(const uint16_t *p) {
	return (vec_bits)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}
INLINE void narrow(uint16_t *p, vec_bits v) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)v)); }
#elif defined(__AVX2__)
INLINE vec_bits widen(const uint16_t *p) {
	return (vec_bits)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}
INLINE void narrow(uint16_t *p, vec_bits v) {
	__m256i i = (__m256i)v;
	_mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1)));
}
#else
INLINE vec_bits widen(const uint16_t *p) { return __builtin_convertvector(*(const vec_half_any *)p, vec_bits); }
INLINE void narrow(uint16_t *p, vec_bits v) { *(vec_half_any *)p = __builtin_convertvector(v, vec_half); }
#endif

#if BF16

typedef uint16_t stored;

#if defined(__AVX512BW__)
// To widen and shift would be two instructions for the same port.
INLINE vec load(const stored *p) {
	const __m512i upper = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5, 0, 4, 0, 3, 0, 2, 0,
		1, 0, 0, 0);
	const __m512i halves = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p));
	return (vec)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, upper, halves);
}
#else
INLINE vec load(const stored *p) { return (vec)(widen(p) << 16); }
#endif

// Rounds to nearest, ties to even; subnormal numbers become zero, as the processors' own conversion has it.
#if defined(__AVX512BF16__)
INLINE void store(stored *p, vec v) { _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh((__m512)v)); }
#else
INLINE void store(stored *p, vec v) {
	vec_bits bits = (vec_bits)v, sign = bits & 0x80000000;
	vec_int magnitude = (vec_int)(bits ^ sign);
	vec_bits subnormal = (vec_bits)(magnitude < 0x800000), nan = (vec_bits)(magnitude > 0x7f800000);
	vec_bits rounded = bits + 0x7fff + ((bits >> 16) & 1);
	rounded = (nan & (bits | 0x400000)) | (~nan & rounded); // rounding would carry a NaN's bits into the exponent
	narrow(p, ((subnormal & sign) | (~subnormal & rounded)) >> 16);
}
#endif

#else

typedef float stored;

INLINE vec load(const stored *p) { return load_float(p); }
INLINE void store(stored *p, vec v) { store_float(p, v); }

#endif
