// vector_avx512.h: vectors of 16 values. vector_avx2.h has the same names.

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { W = 16 }; // values of a vector

typedef __m512 V;      // values
typedef __m512i I;     // their bits, or codes of as many bits
typedef __mmask16 M;   // a truth for each value

INLINE __mmask16 first(int n) { return n <= 0 ? 0 : _bzhi_u32(0xffff, n); } // n < 256
INLINE V load(const float *p, int n) { return n == W ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first(n), p); }
INLINE void store(float *p, V v, int n) { n >= W ? _mm512_storeu_ps(p, v) : _mm512_mask_storeu_ps(p, first(n), v); }
INLINE void stream(float *p, V v) { _mm512_stream_ps(p, v); } // past the caches; p is aligned
INLINE V all(float x) { return _mm512_set1_ps(x); }
INLINE I all_bits(uint32_t x) { return _mm512_set1_epi32(x); }
INLINE V add(V a, V b) { return _mm512_add_ps(a, b); }
INLINE V sub(V a, V b) { return _mm512_sub_ps(a, b); }
INLINE V mul(V a, V b) { return _mm512_mul_ps(a, b); }
INLINE V magnitude(V a) { return _mm512_abs_ps(a); }
INLINE I bits_of(V a) { return _mm512_castps_si512(a); }
INLINE V of_bits(I a) { return _mm512_castsi512_ps(a); }
INLINE I to_int_down(V a) { return _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }

// Clips to (-half, half), so that what is rounded down lies in [-half, half).
INLINE V clip(V a, int half) { return _mm512_range_ps(a, all(half * 0x1.fffffep-1f), 2); }

INLINE V to_float(I a) { return _mm512_cvtepi32_ps(a); }
INLINE I and_bits(I a, I b) { return _mm512_and_si512(a, b); }
INLINE I keep(I a, int n, int32_t otherwise) { return _mm512_mask_mov_epi32(all_bits(otherwise), first(n), a); } // the first n
INLINE I add_int(I a, I b) { return _mm512_add_epi32(a, b); }
INLINE I most_int(I a, I b) { return _mm512_max_epi32(a, b); }
INLINE I shift_down(I a, int by) { return _mm512_srli_epi32(a, by); }
INLINE I shift_up(I a, int by) { return _mm512_slli_epi32(a, by); }
INLINE int any_above(I a, int32_t limit) { return _mm512_cmpgt_epi32_mask(a, all_bits(limit)) != 0; }

INLINE M at_least(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
INLINE V choose(M m, V yes, V no) { return _mm512_mask_blend_ps(m, no, yes); }
INLINE V add_if(V sum, M m, V v) { return _mm512_mask_add_ps(sum, m, sum, v); }
INLINE V add_unless(V sum, M m, V v) { return _mm512_mask_add_ps(sum, _knot_mask16(m), sum, v); }

// Four vectors' truths as bits.
INLINE uint64_t truths(const M m[4]) {
	return m[0] | (uint32_t)m[1] << 16 | (uint64_t)m[2] << 32 | (uint64_t)m[3] << 48;
}
INLINE M get_truths(const uint8_t *wire) {
	uint16_t bits;
	memcpy(&bits, wire, 2);
	return bits;
}

// Folds two vectors of partial sums, the upper half onto the lower until one is left of each.
INLINE void fold(V a, V b, float sums[2]) {
	V s = add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee)); // a's half and b's half
	s = add(s, _mm512_shuffle_f32x4(s, s, 0xb1));
	__m128 x = _mm512_castps512_ps128(s), y = _mm512_extractf32x4_ps(s, 2);
	x = _mm_add_ps(_mm_unpacklo_ps(x, y), _mm_unpackhi_ps(x, y));
	_mm_storel_pi((__m64 *)sums, _mm_add_ps(x, _mm_movehl_ps(x, x)));
}

INLINE void put_halves(uint8_t *wire, I codes) { _mm256_storeu_si256((__m256i *)wire, _mm512_cvtepi32_epi16(codes)); }

// Packs four vectors of q from -N/2 to the bytes of their codes, q + N/2.
INLINE I pack(const I q[4], int bits) {
	I c = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3])); // bytes, by quarters of vectors
	c = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), c);
	c = _mm512_add_epi8(c, _mm512_set1_epi8(1 << (bits - 1)));
	if (bits == 8) return c;
	c = _mm512_maddubs_epi16(c, _mm512_set1_epi16(bits == 4 ? 0x1001 : 0x0401)); // two codes, the lower + N the upper
	if (bits == 4) return _mm512_castsi256_si512(_mm512_cvtepi16_epi8(c));
	return _mm512_castsi128_si512(_mm512_cvtepi32_epi8(_mm512_madd_epi16(c, all_bits(0x00100001))));
}

INLINE void put_words(uint8_t *wire, I words, int n) {
	if (n == 16) _mm512_storeu_si512(wire, words);
	else if (n == 8) _mm256_storeu_si256((__m256i *)wire, _mm512_castsi512_si256(words));
	else if (n == 4) _mm_storeu_si128((__m128i *)wire, _mm512_castsi512_si128(words));
	else if (n == 2) _mm_storel_epi64((__m128i *)wire, _mm512_castsi512_si128(words));
	else if (n == 1) _mm_storeu_si32(wire, _mm512_castsi512_si128(words));
	else _mm512_mask_storeu_epi32(wire, first(n), words);
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

// What gives levels: all of them where they fit into a vector, else the step and its half.
typedef struct { V table, step, half; } gt_levels;

INLINE gt_levels levels(float step, int bits) {
	V q = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1); // by the low 4 bits of q
	return (gt_levels){bits == 8 ? q : mul(add(q, all(0.5f)), all(step)), all(step), all(step / 2)};
}

// (q + 1/2) step, rounded once either way: q + 1/2 and step / 2 are exact.
INLINE V level(I q, gt_levels t, int bits) {
	return bits == 8 ? _mm512_fmadd_ps(to_float(q), t.step, t.half) : _mm512_permutexvar_ps(q, t.table);
}
