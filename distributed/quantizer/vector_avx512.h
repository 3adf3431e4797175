// vector_avx512.h: vectors of 16 values. vector_avx2.h has the same names.

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
	W = 16,    // values of a vector
	GROUP = 8, // vectors of partial sums, of two kinds, that registers hold
};

typedef __m512 V;      // values
typedef __m512i I;     // their bits, or codes of as many bits
typedef __mmask16 M;   // a truth for each value

INLINE __mmask16 first(int n) { return n == W ? 0xffff : (1u << n) - 1; }
INLINE V load(const float *p, int n) { return n == W ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first(n), p); }
INLINE void store(float *p, V v, int n) { n == W ? _mm512_storeu_ps(p, v) : _mm512_mask_storeu_ps(p, first(n), v); }
INLINE V all(float x) { return _mm512_set1_ps(x); }
INLINE I all_bits(uint32_t x) { return _mm512_set1_epi32(x); }
INLINE V add(V a, V b) { return _mm512_add_ps(a, b); }
INLINE V sub(V a, V b) { return _mm512_sub_ps(a, b); }
INLINE V mul(V a, V b) { return _mm512_mul_ps(a, b); }
INLINE V least(V a, V b) { return _mm512_min_ps(a, b); }
INLINE V most(V a, V b) { return _mm512_max_ps(a, b); }
INLINE V down(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE V magnitude(V a) { return _mm512_abs_ps(a); }
INLINE I bits_of(V a) { return _mm512_castps_si512(a); }
INLINE V of_bits(I a) { return _mm512_castsi512_ps(a); }
INLINE I to_int(V a) { return _mm512_cvtps_epi32(a); }
INLINE V to_float(I a) { return _mm512_cvtepi32_ps(a); }
INLINE I and_bits(I a, I b) { return _mm512_and_si512(a, b); }
INLINE I keep(I a, int n) { return _mm512_maskz_mov_epi32(first(n), a); } // the first n
INLINE I add_int(I a, I b) { return _mm512_add_epi32(a, b); }
INLINE I most_int(I a, I b) { return _mm512_max_epi32(a, b); }
INLINE I shift_down(I a, int by) { return _mm512_srli_epi32(a, by); }
INLINE I shift_up(I a, int by) { return _mm512_slli_epi32(a, by); }
INLINE int any_above(I a, int32_t limit) { return _mm512_cmpgt_epi32_mask(a, all_bits(limit)) != 0; }

INLINE M at_least(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
INLINE V choose(M m, V yes, V no) { return _mm512_mask_blend_ps(m, no, yes); }
INLINE V add_if(V sum, M m, V v) { return _mm512_mask_add_ps(sum, m, sum, v); }
INLINE V add_unless(V sum, M m, V v) { return _mm512_mask_add_ps(sum, _knot_mask16(m), sum, v); }

// The truths of the first n values as bits, on the wire; returns how many are set.
INLINE int put_truths(uint8_t *wire, M m, int n) {
	uint16_t bits = n == W ? m : m & first(n);
	memcpy(wire, &bits, 2);
	return _mm_popcnt_u32(bits);
}

INLINE M get_truths(const uint8_t *wire) {
	uint16_t bits;
	memcpy(&bits, wire, 2);
	return bits;
}

// Folds two vectors of partial sums, the upper half onto the lower until one is left.
INLINE void fold(V a, V b, float *sum_a, float *sum_b) {
	V s = add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee)); // a's half and b's half
	s = add(s, _mm512_shuffle_f32x4(s, s, 0xb1));
	s = add(s, _mm512_permute_ps(s, 0x4e));
	s = add(s, _mm512_permute_ps(s, 0xb1));
	*sum_a = _mm512_cvtss_f32(s);
	*sum_b = _mm_cvtss_f32(_mm512_extractf32x4_ps(s, 2));
}

// W codes to W*bits/8 bytes of the wire.
INLINE void put_codes(uint8_t *wire, I codes, int bits) {
	if (bits == 16) {
		_mm256_storeu_si256((__m256i *)wire, _mm512_cvtepi32_epi16(codes));
		return;
	}
	__m128i c = _mm512_cvtepi32_epi8(codes);
	if (bits == 8) {
		_mm_storeu_si128((__m128i *)wire, c);
	} else if (bits == 4) {
		c = _mm_maddubs_epi16(c, _mm_set1_epi16(0x1001)); // lower + 16 upper
		_mm_storel_epi64((__m128i *)wire, _mm_packus_epi16(c, c));
	} else {
		c = _mm_madd_epi16(_mm_maddubs_epi16(c, _mm_set1_epi16(0x0401)), _mm_set1_epi32(0x00100001));
		uint32_t word = _mm_cvtsi128_si32(_mm_cvtepi32_epi8(c));
		memcpy(wire, &word, 4);
	}
}

INLINE I get_codes(const uint8_t *wire, int bits) {
	if (bits == 16) return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)wire));
	if (bits == 8) return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)wire));
	if (bits == 4) {
		I c = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)wire)); // two codes in 64 bits
		return and_bits(_mm512_or_si512(c, _mm512_slli_epi64(c, 28)), all_bits(15));
	}
	uint32_t word;
	memcpy(&word, wire, 4);
	I shifts = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
	return and_bits(_mm512_srlv_epi32(all_bits(word), shifts), all_bits(3));
}
