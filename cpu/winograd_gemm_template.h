// winograd_gemm_template.h holds the two products at one position of Winograd's domain, on float matrices in scratch memory:
//
//   forward:  M[tile][out]  = sum over in    V[tile][in] * U[in][out]
//   weights:  U[in][out]   += sum over tiles V[tile][in] * D[tile][out]
//
// V, M and D lie as [block of channels][position][tile][BLOCK], PLANE floats a position: so a micro kernel addresses its
// tiles with constant offsets, and a transform its positions. `step` counts floats from one block of channels to the next.
// U lies in panels of PANEL blocks of outputs (the last may have fewer, `width`), a panel as [in][width][BLOCK]. A micro
// kernel holds its results in registers: rows x width blocks, and multiplies scalars of V, broadcast, with blocks of U or D.
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
enum { PLANE = (BATCH * BLOCK / 16 | 1) * 16 };

// How many blocks of channels are summed before they are added to M. Short sums round less: with all 64 channels in one, the
// relative error of F(4x4) is 0.8e-6, with 32 at a time 0.6e-6. That would be lost on bfloat16.
enum { SUMMED = BF16 ? 1 << 20 : 32 / BLOCK };

// rows and width are constants where this is inlined.
INLINE void winograd_multiply_rows(int rows, int width, const float *v, size_t step, int blocks, const float *u, float *m) {
	for (int from = 0, to; from < blocks; from = to) {
		vec sum[ROWS][PANEL];
		UNROLL for (int i = 0; i < rows; i++) UNROLL for (int w = 0; w < width; w++) sum[i][w] = (vec){};
		to = blocks - from < SUMMED ? blocks : from + SUMMED;
		for (int c = from; c < to; c++, v += step) {
			_Pragma("GCC unroll 4") for (int k = 0; k < BLOCK; k++, u += width * BLOCK) {
				vec b[PANEL];
				UNROLL for (int w = 0; w < width; w++) b[w] = load_float(u + w * BLOCK);
				UNROLL for (int i = 0; i < rows; i++) {
					vec a = splat(v[i * BLOCK + k]);
					UNROLL for (int w = 0; w < width; w++) sum[i][w] += a * b[w];
				}
			}
		}
		UNROLL for (int w = 0; w < width; w++) UNROLL for (int i = 0; i < rows; i++) {
			float *at = m + w * step + i * BLOCK;
			store_float(at, from == 0 ? sum[i][w] : load_float(at) + sum[i][w]);
		}
	}
}

// The product for `count` tiles: as many at a time as registers hold, then powers of two.
INLINE void winograd_multiply_panel(int width, int count, const float *v, size_t step, int blocks, const float *u, float *m) {
	const int most = ROWS / width;
	int i = 0;
	for (; i + most <= count; i += most) winograd_multiply_rows(most, width, v + i * BLOCK, step, blocks, u, m + i * BLOCK);
	if (most > 16 && i + 16 <= count) {
		winograd_multiply_rows(16, width, v + i * BLOCK, step, blocks, u, m + i * BLOCK);
		i += 16;
	}
	if (most > 8 && i + 8 <= count) {
		winograd_multiply_rows(8, width, v + i * BLOCK, step, blocks, u, m + i * BLOCK);
		i += 8;
	}
	if (most > 4 && i + 4 <= count) {
		winograd_multiply_rows(4, width, v + i * BLOCK, step, blocks, u, m + i * BLOCK);
		i += 4;
	}
	for (; i < count; i++) winograd_multiply_rows(1, width, v + i * BLOCK, step, blocks, u, m + i * BLOCK);
}

static void winograd_multiply(int width, int count, const float *v, size_t step, int blocks, const float *u, float *m) {
	if (width == 1) winograd_multiply_panel(1, count, v, step, blocks, u, m);
	else winograd_multiply_panel(PANEL, count, v, step, blocks, u, m);
}

// Adds to (or with `first` sets) the rows of U that belong to one block of inputs, v, and the panel of outputs d.
INLINE void winograd_accumulate_panel(int width, int first, int count, const float *v, const float *d, size_t step,
	float *u) {
	enum { MOST = WEIGHT_ROWS };
	const int rows = WEIGHT_ROWS / width;
	for (int k = 0; k < BLOCK; k += rows) {
		vec sum[MOST][PANEL];
		UNROLL for (int i = 0; i < rows; i++) UNROLL for (int w = 0; w < width; w++) sum[i][w] = (vec){};
		for (int t = 0; t < count; t++) {
			vec b[PANEL];
			UNROLL for (int w = 0; w < width; w++) b[w] = load_float(d + w * step + t * BLOCK);
			UNROLL for (int i = 0; i < rows; i++) {
				vec a = splat(v[t * BLOCK + k + i]);
				UNROLL for (int w = 0; w < width; w++) sum[i][w] += a * b[w];
			}
		}
		UNROLL for (int i = 0; i < rows; i++) UNROLL for (int w = 0; w < width; w++) {
			float *to = u + ((k + i) * width + w) * BLOCK;
			store_float(to, first ? sum[i][w] : load_float(to) + sum[i][w]);
		}
	}
}

static void winograd_accumulate(int width, int first, int count, const float *v, const float *d, size_t step, float *u) {
	if (width == 1) winograd_accumulate_panel(1, first, count, v, d, step, u);
	else winograd_accumulate_panel(PANEL, first, count, v, d, step, u);
}

#endif
