// vector_avx2.h: vectors of 8 values. vector_avx512.h has the same names.

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { W = 8 }; // values of a vector

typedef __m256 V;      // values
typedef __m256i I;     // their bits, or codes of as many bits
typedef __m256 M;      // a truth for each value: all ones or all zeros

INLINE I first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
INLINE V load(const float *p, int n) { return n == W ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(n)); }
INLINE void store(float *p, V v, int n) { n >= W ? _mm256_storeu_ps(p, v) : _mm256_maskstore_ps(p, first(n), v); }
INLINE void stream(float *p, V v) { _mm256_stream_ps(p, v); } // past the caches; p is aligned
INLINE V all(float x) { return _mm256_set1_ps(x); }
INLINE I all_bits(uint32_t x) { return _mm256_set1_epi32(x); }
INLINE V add(V a, V b) { return _mm256_add_ps(a, b); }
INLINE V sub(V a, V b) { return _mm256_sub_ps(a, b); }
INLINE V mul(V a, V b) { return _mm256_mul_ps(a, b); }
INLINE I bits_of(V a) { return _mm256_castps_si256(a); }
INLINE V of_bits(I a) { return _mm256_castsi256_ps(a); }
INLINE I to_int_down(V a) { return _mm256_cvtps_epi32(_mm256_floor_ps(a)); }

// Clips to (-half, half), so that what is rounded down lies in [-half, half).
INLINE V clip(V a, int half) {
	V limit = all(half * 0x1.fffffep-1f);
	return _mm256_max_ps(sub(all(0), limit), _mm256_min_ps(limit, a));
}

INLINE V to_float(I a) { return _mm256_cvtepi32_ps(a); }
INLINE I and_bits(I a, I b) { return _mm256_and_si256(a, b); }
INLINE I keep(I a, int n, int32_t otherwise) { return _mm256_blendv_epi8(all_bits(otherwise), a, first(n)); } // the first n
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

// Four vectors' truths as bits.
INLINE uint64_t truths(const M m[4]) {
	uint32_t bits = 0;
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) bits |= (uint32_t)_mm256_movemask_ps(m[j]) << j * W;
	return bits;
}
INLINE M get_truths(const uint8_t *wire) {
	I bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
	return of_bits(_mm256_cmpeq_epi32(and_bits(all_bits(*wire), bit), bit));
}

// Folds two vectors of partial sums, the upper half onto the lower until one is left of each.
INLINE void fold(V a, V b, float sums[2]) {
	V s = add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31)); // a's half and b's half
	__m128 x = _mm256_castps256_ps128(s), y = _mm256_extractf128_ps(s, 1);
	x = _mm_add_ps(_mm_unpacklo_ps(x, y), _mm_unpackhi_ps(x, y));
	_mm_storel_pi((__m64 *)sums, _mm_add_ps(x, _mm_movehl_ps(x, x)));
}

INLINE void put_halves(uint8_t *wire, I codes) {
	_mm_storeu_si128((__m128i *)wire,
		_mm_packus_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1)));
}

// Packs four vectors of q from -N/2 to the bytes of their codes, q + N/2.
INLINE I pack(const I q[4], int bits) {
	I c = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])); // bytes, by halves of vectors
	c = _mm256_permutevar8x32_epi32(c, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
	c = _mm256_add_epi8(c, _mm256_set1_epi8(1 << (bits - 1)));
	if (bits == 8) return c;
	c = _mm256_maddubs_epi16(c, _mm256_set1_epi16(bits == 4 ? 0x1001 : 0x0401)); // two codes, the lower + N the upper
	if (bits == 2) c = _mm256_packs_epi32(_mm256_madd_epi16(c, all_bits(0x00100001)), all_bits(0));
	c = _mm256_packus_epi16(c, all_bits(0));
	return _mm256_permutevar8x32_epi32(c, bits == 4 ? _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7) : _mm256_setr_epi32(0, 4, 1, 2, 3, 5, 6, 7));
}

INLINE void put_words(uint8_t *wire, I words, int n) {
	if (n == 8) _mm256_storeu_si256((__m256i *)wire, words);
	else if (n == 4) _mm_storeu_si128((__m128i *)wire, _mm256_castsi256_si128(words));
	else if (n == 2) _mm_storel_epi64((__m128i *)wire, _mm256_castsi256_si128(words));
	else if (n == 1) _mm_storeu_si32(wire, _mm256_castsi256_si128(words));
	else _mm256_maskstore_epi32((int *)wire, first(n), words);
}

INLINE I get_codes(const uint8_t *wire, int bits) {
	if (bits == 16) return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)wire));
	if (bits == 8) return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)wire));
	uint32_t word = 0;
	memcpy(&word, wire, bits);
	I shifts = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), all_bits(bits));
	return and_bits(_mm256_srlv_epi32(all_bits(word), shifts), all_bits((1 << bits) - 1));
}

// What gives levels: all of them where they fit into a vector, else the step and its half.
typedef struct { V table, step, half; } gt_levels;

INLINE gt_levels levels(float step, int bits) {
	V q = _mm256_setr_ps(0, 1, 2, 3, -4, -3, -2, -1); // by the low 3 bits of q
	return (gt_levels){bits > 2 ? q : mul(add(q, all(0.5f)), all(step)), all(step), all(step / 2)};
}

// (q + 1/2) step, rounded once either way: q + 1/2 and step / 2 are exact.
INLINE V level(I q, gt_levels t, int bits) {
	return bits > 2 ? _mm256_fmadd_ps(to_float(q), t.step, t.half) : _mm256_permutevar8x32_ps(t.table, q);
}
