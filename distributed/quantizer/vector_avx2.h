// vector_avx2.h: vectors of 8 values. vector_avx512.h has the same names.

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
	W = 8,     // values of a vector
	GROUP = 4, // vectors of partial sums, of two kinds, that registers hold
};

typedef __m256 V;      // values
typedef __m256i I;     // their bits, or codes of as many bits
typedef __m256 M;      // a truth for each value: all ones or all zeros

INLINE I first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
INLINE V load(const float *p, int n) { return n == W ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(n)); }
INLINE void store(float *p, V v, int n) { n == W ? _mm256_storeu_ps(p, v) : _mm256_maskstore_ps(p, first(n), v); }
INLINE V all(float x) { return _mm256_set1_ps(x); }
INLINE I all_bits(uint32_t x) { return _mm256_set1_epi32(x); }
INLINE V add(V a, V b) { return _mm256_add_ps(a, b); }
INLINE V sub(V a, V b) { return _mm256_sub_ps(a, b); }
INLINE V mul(V a, V b) { return _mm256_mul_ps(a, b); }
INLINE V least(V a, V b) { return _mm256_min_ps(a, b); }
INLINE V most(V a, V b) { return _mm256_max_ps(a, b); }
INLINE V down(V a) { return _mm256_floor_ps(a); }
INLINE I bits_of(V a) { return _mm256_castps_si256(a); }
INLINE V of_bits(I a) { return _mm256_castsi256_ps(a); }
INLINE I to_int(V a) { return _mm256_cvtps_epi32(a); }
INLINE V to_float(I a) { return _mm256_cvtepi32_ps(a); }
INLINE I and_bits(I a, I b) { return _mm256_and_si256(a, b); }
INLINE I keep(I a, int n) { return and_bits(a, first(n)); } // the first n
INLINE I add_int(I a, I b) { return _mm256_add_epi32(a, b); }
INLINE I most_int(I a, I b) { return _mm256_max_epi32(a, b); }
INLINE I shift_down(I a, int by) { return _mm256_srli_epi32(a, by); }
INLINE I shift_up(I a, int by) { return _mm256_slli_epi32(a, by); }
INLINE V magnitude(V a) { return of_bits(and_bits(bits_of(a), all_bits(0x7fffffff))); }
INLINE int any_above(I a, int32_t limit) {
	return _mm256_movemask_epi8(_mm256_cmpgt_epi32(a, all_bits(limit))) != 0;
}

INLINE M at_least(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
INLINE V choose(M m, V yes, V no) { return _mm256_blendv_ps(no, yes, m); }
INLINE V add_if(V sum, M m, V v) { return add(sum, _mm256_and_ps(m, v)); }
INLINE V add_unless(V sum, M m, V v) { return add(sum, _mm256_andnot_ps(m, v)); }

// The truths of the first n values as bits, on the wire; returns how many are set.
INLINE int put_truths(uint8_t *wire, M m, int n) {
	uint8_t bits = _mm256_movemask_ps(m) & ((1u << n) - 1);
	*wire = bits;
	return _mm_popcnt_u32(bits);
}

INLINE M get_truths(const uint8_t *wire) {
	I bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
	return of_bits(_mm256_cmpeq_epi32(and_bits(all_bits(*wire), bit), bit));
}

// Folds two vectors of partial sums, the upper half onto the lower until one is left.
INLINE void fold(V a, V b, float *sum_a, float *sum_b) {
	V s = add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)); // a's half and b's half
	s = add(s, _mm256_permute_ps(s, 0x4e));
	s = add(s, _mm256_permute_ps(s, 0xb1));
	*sum_a = _mm256_cvtss_f32(s);
	*sum_b = _mm_cvtss_f32(_mm256_extractf128_ps(s, 1));
}

// W codes to W*bits/8 bytes of the wire.
INLINE void put_codes(uint8_t *wire, I codes, int bits) {
	__m128i c = _mm_packus_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
	if (bits == 16) {
		_mm_storeu_si128((__m128i *)wire, c);
		return;
	}
	c = _mm_packus_epi16(c, c);
	if (bits == 8) {
		_mm_storel_epi64((__m128i *)wire, c);
	} else if (bits == 4) {
		c = _mm_maddubs_epi16(c, _mm_set1_epi16(0x1001)); // lower + 16 upper
		uint32_t word = _mm_cvtsi128_si32(_mm_packus_epi16(c, c));
		memcpy(wire, &word, 4);
	} else {
		c = _mm_madd_epi16(_mm_maddubs_epi16(c, _mm_set1_epi16(0x0401)), _mm_set1_epi32(0x00100001));
		c = _mm_packus_epi32(c, c);
		uint16_t word = _mm_cvtsi128_si32(_mm_packus_epi16(c, c));
		memcpy(wire, &word, 2);
	}
}

INLINE I get_codes(const uint8_t *wire, int bits) {
	if (bits == 16) return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)wire));
	if (bits == 8) return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)wire));
	uint32_t word = 0;
	memcpy(&word, wire, bits);
	I shifts = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), all_bits(bits));
	return and_bits(_mm256_srlv_epi32(all_bits(word), shifts), all_bits((1 << bits) - 1));
}
