// conv_weights.cu: the gradient of a convolution by its weights.
//
// dweight[k][tap, c] = sum over pixels of dy[pixel][k] x[source(pixel, tap)][c]: a small matrix with a very long sum. The pixels
// are split over blocks (grid z) and, in a block, over warps that each have the whole tile. Partial sums of blocks go to scratch
// memory, [split][k][tap][padded c], and conv_weights_sum adds them in order.
//
// In shared memory, rows are pixels, each of a block's channels. Chunks are exchanged within a row so that what a warp reads at once
// lies in different banks: see at.
#include "gemm.h"

struct ConvWeights {
	const char *x, *dy; // NHWC
	float *partial;
	int samples;
	int height, width, chunks;          // of x, and its chunks a pixel
	int dyHeight, dyWidth, dyChunks, k; // of dy; unpadded channels
	int kernel, stride, pad;
	int split; // pixels of a block
};

// The shape of a block's tile: BM output channels by BN pairs of tap and input channel, in tiles of WM x WN; SPLIT warps share
// each. With FFMA each thread of a warp has 4 TM x 4 TN of them.
template <int BM_, int BN_, int WM_, int WN_, int SPLIT_, int TM_> struct WeightsTile {
	static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_, SPLIT = SPLIT_, TM = TM_;
	static constexpr int warpsN = BN / WN, warps = BM / WM * warpsN, threads = warps * SPLIT * 32;
	static constexpr int lanesM = WM / (4 * TM), lanesN = 32 / lanesM, TN = WN / (4 * lanesN);
};

// The place in shared memory of a chunk of a row of CHUNKS. With float32, lanes read four rows at eight neighbouring values (an
// operand of mma), or one row's chunks; with bfloat16, ldmatrix reads eight rows at one chunk.
template <int BYTES, int CHUNKS> INLINE int at(int row, int chunk) {
	constexpr int rows = CHUNKS < 8 ? 8 / CHUNKS : 1, limit = CHUNKS < 8 ? CHUNKS : 8; // so many rows span all banks
	return (row * CHUNKS + (chunk ^ (row / rows * (BYTES == 2 ? 1 : 2) & (limit - 1)))) * chunkBytes;
}

// HALF says that dy is bfloat16 with float32 math.
template <int MATH, bool HALF, class T> INLINE void weights(const ConvWeights &p) {
	constexpr int bytes = MATH == BF16 ? 2 : 4, bytesA = MATH == BF16 || HALF ? 2 : 4;
	constexpr int pixels = max_of(2, T::SPLIT) * (MATH == BF16 ? 16 : 8), share = pixels / T::SPLIT; // of a stage; of a warp
	constexpr int chunksA = T::BM * bytesA / chunkBytes, chunksB = T::BN * bytes / chunkBytes;
	constexpr int bytesOfA = pixels * chunksA * chunkBytes, stageBytes = bytesOfA + pixels * chunksB * chunkBytes;
	constexpr int stepA = T::threads / chunksA, stepB = T::threads / chunksB, copiesA = (pixels + stepA - 1) / stepA, copiesB = pixels / stepB;
	static_assert(pixels % stepB == 0, "each thread copies as many rows of x");
	__shared__ __attribute__((aligned(128))) char memory[max_of(stages * stageBytes, T::SPLIT / 2 * T::BM * T::BN * 4)];

	const int t = THREAD, n0 = BLOCK * T::BN, m0 = BLOCK_Y * T::BM;
	const int all = p.samples * p.dyHeight * p.dyWidth, first = BLOCK_Z * p.split;
	const int end = min(all, first + p.split);
	const int values = chunkValues<MATH>, columns = p.kernel * p.kernel * p.chunks; // in chunks

	// This thread copies one chunk of dy's rows, and one of x's, at one tap.
	const int rowA = t / chunksA, laneA = t % chunksA, rowB = t / chunksB, laneB = t % chunksB;
	const int chunkA = m0 * bytesA / chunkBytes + laneA, chunkB = n0 / values + laneB;
	const int tap = chunkB / p.chunks, c = chunkB % p.chunks, tapY = tap / p.kernel - p.pad, tapX = tap % p.kernel - p.pad;
	const bool thereA = chunkA < p.dyChunks;
	int a = first + rowA, b = first + rowB; // the next pixels
	int atY = b / p.dyWidth % p.dyHeight * p.stride + tapY, atX = b % p.dyWidth * p.stride + tapX;
	int from = ((b / p.dyWidth / p.dyHeight * p.height + atY) * p.width + atX) * p.chunks + c;
	const int endB = chunkB < columns ? end : 0;
	// From a pixel to the one stepB behind it: so far in each direction, and back by a row's and an image's extent at their ends.
	const int skipX = stepB % p.dyWidth * p.stride, skipY = stepB / p.dyWidth % p.dyHeight * p.stride;
	const int skip = ((stepB / p.dyWidth / p.dyHeight * p.height + skipY) * p.width + skipX) * p.chunks;
	const int extentX = p.dyWidth * p.stride, extentY = p.dyHeight * p.stride, endX = extentX + tapX, endY = extentY + tapY;
	const int nextRow = (p.stride * p.width - extentX) * p.chunks, nextImage = (p.height - extentY) * p.width * p.chunks;
	const u32 base = shared_address(memory);
	auto fetch = [&](int stage) {
#pragma unroll
		for (int i = 0; i < copiesA; i++)
			if (pixels % stepA == 0 || rowA + i * stepA < pixels)
				copy_chunk(base + stage * stageBytes + at<bytesA, chunksA>(rowA + i * stepA, laneA), p.dy, (a + i * stepA) * p.dyChunks + chunkA,
						thereA && a + i * stepA < end);
		a += pixels;
#pragma unroll
		for (int i = 0; i < copiesB; i++) {
			copy_chunk(base + stage * stageBytes + bytesOfA + at<bytes, chunksB>(rowB + i * stepB, laneB), p.x, from,
					b < endB && (u32)atY < (u32)p.height && (u32)atX < (u32)p.width);
			b += stepB, atX += skipX, atY += skipY, from += skip;
			if (atX >= endX) atX -= extentX, atY += p.stride, from += nextRow;
			if (atY >= endY) atY -= extentY, from += nextImage;
		}
		commit_copies();
	};

	const int warp = t / 32 % T::warps, part = t / 32 / T::warps, l = t % 32;
	const int warpM = warp / T::warpsN * T::WM, warpN = warp % T::warpsN * T::WN;
	constexpr int tilesM = T::WM / 16, tilesN = T::WN / 8;
	const int lx = l % T::lanesN, ly = l / T::lanesN;
	constexpr int ROWS = MATH == FFMA ? 4 * T::TM : tilesM * tilesN, COLUMNS = MATH == FFMA ? 4 * T::TN : 4;
	float acc[ROWS][COLUMNS] = {};

	const int slices = (end - first + pixels - 1) / pixels;
	for (int i = 0; i < stages - 1; i++)
		if (i < slices) fetch(i);
		else commit_copies();
	int stage = 0;
	for (int slice = 0; slice < slices; slice++) {
		await_copies();
		SYNC(); // the stage has come for all threads, and all are done with the one before it, which is filled again
		if (slice + stages - 1 < slices) fetch(stage == 0 ? stages - 1 : stage - 1);
		else commit_copies();
		const char *sa = memory + stage * stageBytes, *sb = sa + bytesOfA;
		const u32 ua = base + stage * stageBytes, ub = ua + bytesOfA;
		const int row = part * share;
		if constexpr (MATH == FFMA) {
#pragma unroll 4
			for (int d = 0; d < share; d++) {
				float4 u[T::TM], v[T::TN];
#pragma unroll
				for (int i = 0; i < T::TM; i++) {
					int m = warpM / 4 + ly + i * T::lanesM; // in fours
					if constexpr (HALF) u[i] = load4((const bf16 *)(sa + at<2, chunksA>(row + d, m / 2) + m % 2 * 8));
					else u[i] = load4((const float *)(sa + at<4, chunksA>(row + d, m)));
				}
#pragma unroll
				for (int j = 0; j < T::TN; j++) v[j] = load4((const float *)(sb + at<4, chunksB>(row + d, warpN / 4 + lx + j * T::lanesN)));
#pragma unroll
				for (int i = 0; i < ROWS; i++)
#pragma unroll
					for (int j = 0; j < COLUMNS; j++) acc[i][j] = __builtin_fmaf(u[i / 4][i % 4], v[j / 4][j % 4], acc[i][j]);
			}
		} else if constexpr (MATH == TF32) {
			// mma wants the operands by pixel, which ldmatrix turns around for 16 bits only.
			const u32 *wa = (const u32 *)sa, *wb = (const u32 *)sb;
			const int tig = l % 4, gid = l / 4;
#pragma unroll
			for (int d = 0; d < share; d += 8) {
				u32 v[tilesN][2];
#pragma unroll
				for (int j = 0; j < tilesN; j++)
#pragma unroll
					for (int h = 0; h < 2; h++)
						v[j][h] = to_tf32(wb[at<4, chunksB>(row + d + tig + h * 4, (warpN + j * 8 + gid) / 4) / 4 + gid % 4]);
#pragma unroll
				for (int i = 0; i < tilesM; i++) {
					u32 u[4];
#pragma unroll
					for (int h = 0; h < 4; h++)
						u[h] = to_tf32(wa[at<4, chunksA>(row + d + tig + h / 2 * 4, (warpM + i * 16 + h % 2 * 8 + gid) / 4) / 4 + gid % 4]);
#pragma unroll
					for (int j = 0; j < tilesN; j++) multiply<MATH>(acc[i * tilesN + j], words4{u[0], u[1], u[2], u[3]}, v[j][0], v[j][1]);
				}
			}
		} else {
#pragma unroll
			for (int d = 0; d < share; d += 16) {
				words4 v[tilesN / 2]; // each the two halves, by depth, of two 8-wide tiles
#pragma unroll
				for (int j = 0; j < tilesN / 2; j++)
					v[j] = load_matrices_transposed(ub + at<2, chunksB>(row + d + l % 16, warpN / 8 + j * 2 + l / 16));
#pragma unroll
				for (int i = 0; i < tilesM; i++) {
					words4 u = load_matrices_transposed(ua + at<2, chunksA>(row + d + l % 8 + l / 16 * 8, warpM / 8 + i * 2 + l / 8 % 2));
#pragma unroll
					for (int j = 0; j < tilesN; j++)
						multiply<MATH>(acc[i * tilesN + j], u, j % 2 ? v[j / 2].z : v[j / 2].x, j % 2 ? v[j / 2].w : v[j / 2].y);
				}
			}
		}
		stage = stage == stages - 1 ? 0 : stage + 1;
	}

	if (!sum_parts<T::SPLIT, T::warps>((float *)memory, acc, warp, part)) return;

	const int width = columns * values;
	float *to = p.partial + (i64)BLOCK_Z * p.k * width;
#pragma unroll
	for (int i = 0; i < ROWS; i++)
#pragma unroll
		for (int j = 0; j < COLUMNS; j += MATH == FFMA ? 4 : 2) {
			if constexpr (MATH == FFMA) {
				int m = m0 + warpM + (ly + i / 4 * T::lanesM) * 4 + i % 4, n = n0 + warpN + (lx + j / 4 * T::lanesN) * 4;
				if (m < p.k && n < width) *(float4 *)(to + (i64)m * width + n) = float4{acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]};
			} else {
				int m = m0 + warpM + i / tilesN * 16 + l / 4 + j / 2 * 8, n = n0 + warpN + i % tilesN * 8 + l % 4 * 2;
				typedef float float2 __attribute__((ext_vector_type(2)));
				if (m < p.k && n < width) *(float2 *)(to + (i64)m * width + n) = float2{acc[i][j], acc[i][j + 1]};
			}
		}
}

#define WEIGHTS(name, math, half, ...) \
	KERNEL((WeightsTile<__VA_ARGS__>::threads)) name(ConvWeights p) { weights<math, half, WeightsTile<__VA_ARGS__>>(p); }
#define TILES(suffix, math, half) \
	WEIGHTS(conv_backward_weights_##suffix##_16x64, math, half, 16, 64, 16, 64, 4, 2) \
	WEIGHTS(conv_backward_weights_##suffix##_32x64, math, half, 32, 64, 32, 64, 4, 2) \
	WEIGHTS(conv_backward_weights_##suffix##_64x64, math, half, 64, 64, 32, 64, 2, 2) \
	WEIGHTS(conv_backward_weights_##suffix##_128x128, math, half, 128, 128, 64, 32, 1, 2)

//    BM  BN  WM  WN  SPLIT TM
TILES(f32, FFMA, false)
TILES(mixed, FFMA, true)
TILES(tf32, TF32, false)
TILES(bf16, BF16, false)

// Sums the partials of all splits, and turns [k][tap][padded c] into the arena's [k][c][tap]. A block has 32 columns; eight warps
// take every eighth split, and their sums add in order.
KERNEL(256) conv_weights_sum(const float *partial, float *dweight, int k, int channels, int padded, int taps, int splits) {
	__shared__ float sums[8][32];
	const int warp = THREAD / 32, lane = THREAD % 32, size = k * taps * padded, i = BLOCK * 32 + lane;
	float sum = 0;
	if (i < size)
#pragma unroll 4
		for (int s = warp; s < splits; s += 8) sum += partial[(i64)s * size + i];
	sums[warp][lane] = sum;
	SYNC();
	if (warp > 0 || i >= size) return;
	for (int w = 1; w < 8; w++) sum += sums[w][lane];
	const int c = i % padded, tap = i / padded % taps, out = i / padded / taps;
	if (c < channels) dweight[((i64)out * channels + c) * taps + tap] = sum;
}
