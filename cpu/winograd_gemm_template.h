// winograd_gemm_template.h holds the two products at one position of Winograd's domain, on float matrices in scratch memory:
//
//   forward:  M[tile][out]  = sum over in    V[tile][in] * U[in][out]
//   weights:  U[in][out]   += sum over tiles V[tile][in] * D[tile][out]
//
// V, M and D lie as [block of channels][position][tile][BLOCK], PLANE floats a position: so a micro kernel addresses its
// tiles with constant offsets, and a transform its positions. `step` counts floats from one block of channels to the next.
// U lies in panels of PANEL blocks of outputs (the last may have fewer, `width`), a panel as [in][width][BLOCK]. A micro
// kernel holds its results in registers: rows x width blocks, and multiplies scalars of V, broadcast, with blocks of U or D.
//
// Where the processor multiplies bfloat16, the products of the backward pass take pairs of what is summed: a word of V, U or
// D, a float otherwise, then holds two neighbours, the first in its lower half. V is [tile][BLOCK / 2] and U [in / 2][out] in
// the first product, V [tile / 2][in] and D [tile / 2][out] in the second. Sums are floats always.
#ifndef WINOGRAD_GEMM
#define WINOGRAD_GEMM

// A thread takes BATCH tiles at a time, so that what it holds of them in Winograd's domain stays in its second-level cache
// up to 64 channels or so. ROWS is how many of them a micro kernel takes where a panel has one block: what 32 or 16
// registers hold beside the operands. WEIGHT_ROWS is the same for the weights' product, a divisor of BLOCK.
#if defined(__AVX512F__)
enum { PANEL = 2, BATCH = 28, ROWS = 28, WEIGHT_ROWS = 16 };
#elif defined(__AVX__)
enum { PANEL = 2, BATCH = 24, ROWS = 12, WEIGHT_ROWS = 8 };
#else
enum { PANEL = 1, BATCH = 24, ROWS = 4, WEIGHT_ROWS = 4 }; // a block takes two registers of four floats
#endif

// An odd number of cache lines, or the positions of a tile would compete for few sets of the first-level cache.
enum { PLANE = (BATCH * BLOCK / 16 | 1) * 16, PAIRED_PLANE = (BATCH * BLOCK / 2 / 16 | 1) * 16 };

#if BF16 && defined(__AVX512BF16__)
#define PAIRED 1
INLINE vec spread(const float *word) { return (vec)_mm512_set1_ps(*word); }
INLINE vec add_products(int paired, vec sum, vec a, vec b) {
	return paired ? (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b) : sum + a * b;
}
#else
#define PAIRED 0
INLINE vec spread(const float *word) { return splat(*word); }
INLINE vec add_products(int paired, vec sum, vec a, vec b) { return sum + a * b; }
#endif

// How a block of a tile, or of U, goes into Winograd's domain: as floats; as pairs of channels; or, to become pairs of
// tiles, first as the floats of one and then with those of the other.
enum { FLOATS, CHANNELS, FIRST, SECOND };

INLINE int plane_of(int form) { return form == FLOATS ? PLANE : PAIRED_PLANE; }

#if PAIRED
// Two rows of BLOCK values, each of the first beside the one of the second.
INLINE vec interleave(__m512i rows) {
	const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4,
		19, 3, 18, 2, 17, 1, 16, 0);
	return (vec)_mm512_permutexvar_epi16(order, rows);
}
#endif

INLINE void put(int form, float *p, vec v) {
#if PAIRED
	if (form == CHANNELS) {
		store((stored *)p, v);
		return;
	}
	if (form == SECOND) v = interleave((__m512i)_mm512_cvtne2ps_pbh((__m512)v, (__m512)load_float(p)));
#endif
	store_float(p, v);
}

// How many blocks of channels are summed before they are added to M. Short sums round less: with all 64 channels in one, the
// relative error of F(4x4) is 0.8e-6, with 32 at a time 0.6e-6. That would be lost on bfloat16.
enum { SUMMED = BF16 ? 1 << 20 : 32 / BLOCK };

// `step` counts words from a block of channels of V to the next. paired, rows and width are constants where this is inlined.
INLINE void winograd_multiply_rows(int paired, int rows, int width, const float *v, size_t step, int blocks, const float *u,
	float *m, size_t m_step) {
	const int words = paired ? BLOCK / 2 : BLOCK;
	for (int from = 0, to; from < blocks; from = to) {
		vec sum[ROWS][PANEL];
		UNROLL for (int i = 0; i < rows; i++) UNROLL for (int w = 0; w < width; w++) sum[i][w] = (vec){};
		to = blocks - from < SUMMED ? blocks : from + SUMMED;
		for (int c = from; c < to; c++, v += step) {
			_Pragma("GCC unroll 4") for (int k = 0; k < words; k++, u += width * BLOCK) {
				vec b[PANEL];
				UNROLL for (int w = 0; w < width; w++) b[w] = load_float(u + w * BLOCK);
				UNROLL for (int i = 0; i < rows; i++) {
					vec a = spread(v + i * words + k);
					UNROLL for (int w = 0; w < width; w++) sum[i][w] = add_products(paired, sum[i][w], a, b[w]);
				}
			}
		}
		UNROLL for (int w = 0; w < width; w++) UNROLL for (int i = 0; i < rows; i++) {
			float *at = m + w * m_step + i * BLOCK;
			store_float(at, from == 0 ? sum[i][w] : load_float(at) + sum[i][w]);
		}
	}
}

// The product for `count` tiles: as many at a time as registers hold, then powers of two.
INLINE void winograd_multiply_panel(int paired, int width, int count, const float *v, size_t step, int blocks, const float *u,
	float *m, size_t m_step) {
	const int most = ROWS / width, words = paired ? BLOCK / 2 : BLOCK;
	int i = 0;
	for (; i + most <= count; i += most) {
		winograd_multiply_rows(paired, most, width, v + i * words, step, blocks, u, m + i * BLOCK, m_step);
	}
	UNROLL for (int rows = 16; rows > 1; rows /= 2) {
		if (rows == 2 || most <= rows || i + rows > count) continue;
		winograd_multiply_rows(paired, rows, width, v + i * words, step, blocks, u, m + i * BLOCK, m_step);
		i += rows;
	}
	for (; i < count; i++) winograd_multiply_rows(paired, 1, width, v + i * words, step, blocks, u, m + i * BLOCK, m_step);
}

#define MULTIPLY(name, paired) \
	static void name(int width, int count, const float *v, size_t step, int blocks, const float *u, float *m, size_t m_step) { \
		if (width == 1) winograd_multiply_panel(paired, 1, count, v, step, blocks, u, m, m_step); \
		else winograd_multiply_panel(paired, PANEL, count, v, step, blocks, u, m, m_step); \
	}

MULTIPLY(winograd_multiply, 0)
#if PAIRED
MULTIPLY(winograd_multiply_pairs, 1)
#else
#define winograd_multiply_pairs winograd_multiply
#endif

// Adds to (or with `first` sets) the rows of U that belong to one block of inputs, v, and the panel of outputs d.
INLINE void winograd_accumulate_panel(int paired, int width, int first, int count, const float *v, const float *d,
	size_t step, float *u) {
	if (paired) count = (count + 1) / 2;
	enum { MOST = WEIGHT_ROWS };
	const int rows = WEIGHT_ROWS / width;
	for (int k = 0; k < BLOCK; k += rows) {
		vec sum[MOST][PANEL];
		UNROLL for (int i = 0; i < rows; i++) UNROLL for (int w = 0; w < width; w++) sum[i][w] = (vec){};
		for (int t = 0; t < count; t++) {
			vec b[PANEL];
			UNROLL for (int w = 0; w < width; w++) b[w] = load_float(d + w * step + t * BLOCK);
			UNROLL for (int i = 0; i < rows; i++) {
				vec a = spread(v + t * BLOCK + k + i);
				UNROLL for (int w = 0; w < width; w++) sum[i][w] = add_products(paired, sum[i][w], a, b[w]);
			}
		}
		UNROLL for (int i = 0; i < rows; i++) UNROLL for (int w = 0; w < width; w++) {
			float *to = u + ((k + i) * width + w) * BLOCK;
			store_float(to, first ? sum[i][w] : load_float(to) + sum[i][w]);
		}
	}
}

// The product for `count` tiles: the last of an odd number makes a pair with zeros.
static void winograd_accumulate(int width, int first, int count, const float *v, const float *d, size_t step, float *u) {
	if (width == 1) winograd_accumulate_panel(PAIRED, 1, first, count, v, d, step, u);
	else winograd_accumulate_panel(PAIRED, PANEL, first, count, v, d, step, u);
}

#endif
