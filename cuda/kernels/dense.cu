// dense.cu has the last layer in its three directions, each a product of float32 matrices c[m][n] = sum over k of a(m,k) b(n,k). They
// differ in what lies contiguously in memory. A block has 32x32 results, four to a thread; the layer is a thousandth of a ResNet's work.
#include "gt.h"

constexpr int TILE = 32;

// Loads a tile [k][i] of values i of k; CONTIGUOUS says that neighbours along k are neighbours in memory, as value i*depth + k, else it
// is k*count + i.
template <bool CONTIGUOUS> INLINE void load_tile(float (*to)[TILE + 1], const float *from, int i0, int count, int k0, int depth) {
	for (int at = THREAD; at < TILE * TILE; at += 256) {
		int slow = at / TILE, fast = at % TILE, i = CONTIGUOUS ? slow : fast, k = CONTIGUOUS ? fast : slow;
		bool inside = i0 + i < count && k0 + k < depth;
		float v = 0;
		if (inside) v = CONTIGUOUS ? from[(i64)(i0 + i) * depth + k0 + k] : from[(i64)(k0 + k) * count + i0 + i];
		to[k][i] = v;
	}
}

// bias is added to each row of c, or 0; sums, or 0, receives the sums of a over k.
template <bool A, bool B> INLINE void product(const float *a, const float *b, const float *bias, float *c, float *sums, int m, int n, int depth) {
	__shared__ float as[TILE][TILE + 1], bs[TILE][TILE + 1];
	int m0 = BLOCK_Y * TILE, n0 = BLOCK * TILE, x = THREAD % 16, y = THREAD / 16;
	float r[2][2] = {}, sum = 0;
	bool summing = sums && BLOCK == 0 && THREAD < TILE;
	for (int k0 = 0; k0 < depth; k0 += TILE) {
		load_tile<A>(as, a, m0, m, k0, depth);
		load_tile<B>(bs, b, n0, n, k0, depth);
		SYNC();
		for (int k = 0; k < TILE; k++)
			for (int i = 0; i < 2; i++)
				for (int j = 0; j < 2; j++) r[i][j] += as[k][y + i * 16] * bs[k][x + j * 16];
		if (summing)
			for (int k = 0; k < TILE; k++) sum += as[k][THREAD];
		SYNC();
	}
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2; j++) {
			int row = m0 + y + i * 16, column = n0 + x + j * 16;
			if (row < m && column < n) c[(i64)row * n + column] = r[i][j] + (bias ? bias[column] : 0.0f);
		}
	if (summing && m0 + THREAD < m) sums[m0 + THREAD] = sum;
}

KERNEL(256) dense_forward(const float *x, const float *weight, const float *bias, float *y, int n, int in, int out) {
	product<true, true>(x, weight, bias, y, nullptr, n, out, in);
}
KERNEL(256) dense_backward_data(const float *weight, const float *dy, float *dx, int n, int in, int out) {
	product<true, false>(dy, weight, nullptr, dx, nullptr, n, in, out);
}
KERNEL(256) dense_backward_weights(const float *x, const float *dy, float *dweight, float *dbias, int n, int in, int out) {
	product<false, false>(dy, x, nullptr, dweight, dbias, out, in, n);
}
