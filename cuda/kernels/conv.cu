// conv.cu: the convolution and its gradient by data, as implicit matrix products in NHWC.
//
// Forward: y[pixel][k] = sum over tap, c of x[source(pixel, tap)][c] weight[k][tap][c]. Backward by data is the same sum with
// dy for x and the weights turned around: the pixels of dx fall into stride^2 phases (grid z), each of which sees its own
// regular subset of the taps as a convolution of stride 1, so that no product with a skipped pixel is computed and every
// pixel of dx is written, with zeros where no tap reaches.
//
// A block computes BM pixels by BN channels. The depth, taps by channels, goes by in slices of four chunks, 64 bytes a row.
// Rows of 64 bytes in shared memory hold chunk c at c ^ (row / 2 mod 4): eight consecutive rows at one chunk, which is what
// a quarter of a warp (or a matrix of ldmatrix) reads, then lie in different banks, and so do the chunks of a copy.
// The columns of a block are permuted over the rows of its weights' tile so that a thread's results are neighbours in memory.
#include "gemm.h"

struct Conv {
	const char *source, *weight; // NHWC; [channels of dest][kernel][kernel][channels of source]
	char *dest;                  // NHWC
	int samples;
	int sourceH, sourceW, sourceChunks; // chunks of a pixel
	int destH, destW, destChannels;     // padded
	int kernel, stride, pad;
};

constexpr int sliceChunks = 4, rowBytes = sliceChunks * chunkBytes;

INLINE int in_row(int row, int chunk) { return row * rowBytes + ((chunk ^ (row >> 1 & 3)) * chunkBytes); }

// The shape of a block's tile: warps of WM x WN outputs, SPLIT of which share each by taking turns at the chunks of a slice, so that
// small convolutions have warps enough. With FFMA each thread of a warp has TM x TN outputs.
template <int BM_, int BN_, int WM_, int WN_, int TM_, int TN_, int SPLIT_> struct Tile {
	static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_, TM = TM_, TN = TN_, SPLIT = SPLIT_;
	static constexpr int warpsN = BN / WN, warps = BM / WM * warpsN, threads = warps * SPLIT * 32;
	static constexpr int lanesN = WN / TN, lanesM = WM / TM; // FFMA: how a warp's lanes lie over its tile
	static_assert(lanesN * lanesM == 32, "a warp has 32 lanes");
};

// The channel, from the block's first, that a row of the weights' tile holds.
template <int MATH, class T> INLINE int column(int row) {
	int warp = row / T::WN * T::WN, r = row % T::WN;
	if (MATH == FFMA) return warp + r % T::lanesN * T::TN + r / T::lanesN;
	return warp + r % 8 / 2 * (T::WN / 4) + r / 8 * 2 + r % 2; // each of four lanes has two channels of every tile of 8
}

template <int MATH, bool BACK, class T> INLINE void convolve(const Conv &p) {
	constexpr bool half = MATH == BF16 && BACK; // convolutions leave float32 in any precision
	constexpr int valueBytes = half ? 2 : 4;
	constexpr int stageBytes = (T::BM + T::BN) * rowBytes, sumBytes = T::SPLIT / 2 * T::BM * T::BN * 4;
	constexpr int rowStep = T::threads / sliceChunks, rowsA = (T::BM + rowStep - 1) / rowStep, rowsB = (T::BN + rowStep - 1) / rowStep;
	__shared__ __attribute__((aligned(128))) char memory[max_of(stages * stageBytes, sumBytes)];

	// What of the destination this block's phase has, and which taps: source = at * step + offset + dir * tap.
	int phaseY = 0, phaseX = 0, tapY = 0, tapX = 0, tapsY = p.kernel, tapsX = p.kernel;
	int rows = p.destH, columns = p.destW, offsetY = -p.pad, offsetX = -p.pad;
	if (BACK) {
		phaseY = BLOCK_Z / p.stride, phaseX = BLOCK_Z % p.stride;
		tapY = (phaseY + p.pad) % p.stride, tapX = (phaseX + p.pad) % p.stride;
		tapsY = (p.kernel - tapY + p.stride - 1) / p.stride, tapsX = (p.kernel - tapX + p.stride - 1) / p.stride;
		rows = (p.destH - phaseY + p.stride - 1) / p.stride, columns = (p.destW - phaseX + p.stride - 1) / p.stride;
		offsetY = (phaseY + p.pad - tapY) / p.stride, offsetX = (phaseX + p.pad - tapX) / p.stride;
	}
	const int step = BACK ? 1 : p.stride, dir = BACK ? -1 : 1, tapStep = BACK ? p.stride : 1;
	const int pixels = p.samples * rows * columns, m0 = BLOCK * T::BM, n0 = BLOCK_Y * T::BN;
	if (m0 >= pixels) return;

	// This thread copies chunk `lane` of every slice, of some rows. Offsets count chunks.
	const int t = THREAD, lane = t % sliceChunks, row = t / sliceChunks;
	const int chunks = p.sourceChunks, depth = p.kernel * p.kernel * chunks;
	int atY[rowsA], atX[rowsA], atA[rowsA];
#pragma unroll
	for (int i = 0; i < rowsA; i++) {
		int m = m0 + row + i * rowStep, x = m % columns, y = m / columns % rows, n = m / columns / rows;
		atX[i] = x * step + offsetX;
		atY[i] = m < pixels ? y * step + offsetY : -(1 << 28); // far outside
		atA[i] = (n * p.sourceH + y * step + offsetY) * p.sourceW + atX[i];
		atA[i] *= chunks;
	}
	int atB[rowsB];
	bool thereB[rowsB];
#pragma unroll
	for (int i = 0; i < rowsB; i++) {
		int r = row + i * rowStep, n = n0 + column<MATH, T>(r);
		thereB[i] = r < T::BN && n < p.destChannels;
		atB[i] = n * depth;
	}
	const u32 base = shared_address(memory), to = base + in_row(row, lane); // rowStep is a multiple of 8: one swizzle for all rows
	static_assert(rowStep % 8 == 0, "");
	int ky = 0, kx = 0, c = lane; // the tap and the chunk of it that this thread copies next
	while (c >= chunks && ky < tapsY) {
		c -= chunks;
		if (++kx == tapsX) kx = 0, ky++;
	}
	auto fetch = [&](int stage) {
		const bool there = ky < tapsY;
		const int y = dir * ky, x = dir * kx;
		const int source = (y * p.sourceW + x) * chunks + c;
		const int weight = ((tapY + ky * tapStep) * p.kernel + tapX + kx * tapStep) * chunks + c;
#pragma unroll
		for (int i = 0; i < rowsA; i++)
			if (T::BM % rowStep == 0 || row + i * rowStep < T::BM) {
				bool ok = there && (u32)(atY[i] + y) < (u32)p.sourceH && (u32)(atX[i] + x) < (u32)p.sourceW;
				copy_chunk(to + stage * stageBytes + i * rowStep * rowBytes, p.source, atA[i] + source, ok);
			}
#pragma unroll
		for (int i = 0; i < rowsB; i++)
			if (T::BN % rowStep == 0 || row + i * rowStep < T::BN)
				copy_chunk(to + stage * stageBytes + (T::BM + i * rowStep) * rowBytes, p.weight, atB[i] + weight, there && thereB[i]);
		commit_copies();
		c += sliceChunks;
		while (c >= chunks && ky < tapsY) {
			c -= chunks;
			if (++kx == tapsX) kx = 0, ky++;
		}
	};

	const int warp = t / 32 % T::warps, part = t / 32 / T::warps, l = t % 32;
	const int warpM = warp / T::warpsN * T::WM, warpN = warp % T::warpsN * T::WN;
	constexpr int share = sliceChunks / T::SPLIT;
	constexpr int tilesM = T::WM / 16, tilesN = T::WN / 8;
	const int lx = l % T::lanesN, ly = l / T::lanesN;
	constexpr int outer = MATH == FFMA ? T::TM : tilesM * tilesN, inner = MATH == FFMA ? T::TN : 4;
	float acc[outer][inner] = {};

	const int slices = (tapsY * tapsX * chunks + sliceChunks - 1) / sliceChunks;
	for (int i = 0; i < stages - 1; i++)
		if (i < slices) fetch(i);
		else commit_copies();
	int stage = 0;
	for (int slice = 0; slice < slices; slice++) {
		await_copies();
		SYNC(); // the stage has come for all threads, and all are done with the one before it, which is filled again
		if (slice + stages - 1 < slices) fetch(stage == 0 ? stages - 1 : stage - 1);
		else commit_copies();
		const char *a = memory + stage * stageBytes, *b = a + T::BM * rowBytes;
		if constexpr (MATH == FFMA) {
#pragma unroll 1 // registers for three blocks of 128 threads a multiprocessor hide more than loads ahead
			for (int q = part * share; q < (part + 1) * share; q++) {
				float4 w[T::TN];
#pragma unroll
				for (int j = 0; j < T::TN; j++) w[j] = *(const float4 *)(b + in_row(warpN + lx + j * T::lanesN, q));
#pragma unroll
				for (int i = 0; i < T::TM; i++) {
					float4 v = *(const float4 *)(a + in_row(warpM + ly + i * T::lanesM, q));
#pragma unroll
					for (int d = 0; d < 4; d++)
#pragma unroll
						for (int j = 0; j < T::TN; j++) acc[i][j] = __builtin_fmaf(v[d], w[j][d], acc[i][j]);
				}
			}
		} else {
			const u32 sa = base + stage * stageBytes, sb = sa + T::BM * rowBytes;
#pragma unroll
			for (int q = part * share; q < (part + 1) * share; q += 2) {
				words4 w[tilesN / 2]; // each the two halves, by depth, of two 8-wide tiles
#pragma unroll
				for (int j = 0; j < tilesN / 2; j++) w[j] = load_matrices(sb + in_row(warpN + j * 16 + l % 8 + l / 16 * 8, q + l / 8 % 2));
#pragma unroll
				for (int i = 0; i < tilesM; i++) {
					words4 v = load_matrices(sa + in_row(warpM + i * 16 + l % 16, q + l / 16));
					if (MATH == TF32) v = words4{to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w)};
#pragma unroll
					for (int j = 0; j < tilesN; j++)
						multiply<MATH>(acc[i * tilesN + j], v, j % 2 ? w[j / 2].z : w[j / 2].x, j % 2 ? w[j / 2].w : w[j / 2].y);
				}
			}
		}
		stage = stage == stages - 1 ? 0 : stage + 1;
	}

	if (!sum_parts<T::SPLIT, T::warps>((float *)memory, acc, warp, part)) return;

	// Each thread holds VALUES neighbouring channels of some rows.
	constexpr int VALUES = MATH == FFMA ? T::TN : T::WN / 4, ROWS = MATH == FFMA ? T::TM : T::WM / 8;
	const int n = n0 + warpN + (MATH == FFMA ? lx * T::TN : l % 4 * VALUES);
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		int m = m0 + warpM + (MATH == FFMA ? ly + i * T::lanesM : l / 4 + i * 8);
		if (m >= pixels) break;
		if (BACK && p.stride > 1) {
			int x = m % columns, y = m / columns % rows, s = m / columns / rows;
			m = (s * p.destH + y * p.stride + phaseY) * p.destW + x * p.stride + phaseX;
		}
		float v[VALUES];
#pragma unroll
		for (int j = 0; j < VALUES; j++)
			if constexpr (MATH == FFMA) v[j] = acc[i][j];
			else v[j] = acc[i / 2 * tilesN + j / 2][i % 2 * 2 + j % 2];
		char *to = p.dest + ((i64)m * p.destChannels + n) * valueBytes;
		// Channels come in eights, so that four or eight of them are there together or not at all.
		constexpr int together = VALUES < 8 ? VALUES : 8;
#pragma unroll
		for (int j = 0; j < VALUES; j += together)
			if (n + j < p.destChannels) store_row<half, together>(to + j * valueBytes, v + j);
	}
}

// One kernel for each math, direction and tile; the tiles differ by math.
// The second bound: with float32 sums of 8 x 8 a thread, 168 registers; else 128.
#define CONV(name, math, back, ...) \
	extern "C" __global__ __launch_bounds__(Tile<__VA_ARGS__>::threads, (math == FFMA && Tile<__VA_ARGS__>::TN == 8 ? 384 : 512) / Tile<__VA_ARGS__>::threads) \
	void name(Conv p) { convolve<math, back, Tile<__VA_ARGS__>>(p); }
#define BOTH(suffix, math, ...) \
	CONV(conv_forward_##suffix, math, false, __VA_ARGS__) \
	CONV(conv_backward_data_##suffix, math, true, __VA_ARGS__)

//                          BM   BN  WM  WN TM TN SPLIT
BOTH(f32_128x16,     FFMA, 128,  16, 64, 16, 8, 4, 2)
BOTH(f32_128x32,     FFMA, 128,  32, 64, 32, 8, 8, 2)
BOTH(f32_32x32,      FFMA,  32,  32, 32, 16, 4, 4, 4)
BOTH(f32_64x64,      FFMA,  64,  64, 32, 64, 8, 8, 4)
BOTH(f32_128x64,     FFMA, 128,  64, 32, 64, 8, 8, 1)
BOTH(f32_128x128,    FFMA, 128, 128, 32, 64, 8, 8, 1)
#define TENSOR(suffix, math) \
	BOTH(suffix##_128x16,  math, 128,  16, 32, 16, 4, 4, 1) \
	BOTH(suffix##_128x32,  math, 128,  32, 32, 32, 8, 4, 1) \
	BOTH(suffix##_32x32,   math,  32,  32, 16, 16, 4, 2, 1) \
	BOTH(suffix##_64x64,   math,  64,  64, 32, 32, 8, 4, 1) \
	BOTH(suffix##_128x64,  math, 128,  64, 64, 32, 8, 8, 1) \
	BOTH(suffix##_128x128, math, 128, 128, 64, 32, 8, 8, 1)
TENSOR(tf32, TF32)
TENSOR(bf16, BF16)
