// gemm.h: what the convolutions share. A tile of products is computed from rows of 16-byte chunks in shared memory, which
// cp.async fills three stages deep, by float32 multiply-adds or by mma.sync on the tensor cores.
#pragma once
#include "gt.h"

// The three maths: float32 multiply-adds, tf32 products of float32 values, products of bfloat16 values. All add in float32.
enum { FFMA, TF32, BF16 };

// A chunk is what moves at once: 16 bytes, 4 float32 or 8 bfloat16 values.
constexpr int chunkBytes = 16;
template <int MATH> constexpr int chunkValues = MATH == BF16 ? 8 : 4;

// Stages of the pipeline: while one is computed with, two are on their way.
constexpr int stages = 3;

INLINE u32 shared_address(const void *p) {
	return (u32)(u64)(__attribute__((address_space(3))) const void *)p;
}

// Copies a chunk to shared memory, or writes zeros there and reads nothing, from an address that may then be anything. Neighbouring
// taps read the same chunks again, so that copies go through L1.
INLINE void copy_chunk(u32 to, const char *from, int chunk, bool there) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from + (i64)chunk * chunkBytes), "r"(there ? 16 : 0) : "memory");
}
INLINE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all but the latest stage on its way.
INLINE void await_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory"); }
INLINE void await_all_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

// Four 8x8 matrices of 16-bit values, or 8x4 ones of 32 bits; each lane gives the address of one row.
INLINE words4 load_matrices(u32 address) {
	words4 v;
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
							 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
	return v;
}
INLINE words4 load_matrices_transposed(u32 address) {
	words4 v;
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
							 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
	return v;
}

// Rounds the bits of a float32 to tf32: to nearest, ties away from zero.
INLINE u32 to_tf32(u32 v) {
	u32 r;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__builtin_bit_cast(float, v)));
	return r;
}

// d += a b for a 16x8 tile: 8 deep in tf32, 16 deep in bfloat16.
template <int MATH> INLINE void multiply(float (&d)[4], words4 a, u32 b0, u32 b1) {
	if constexpr (MATH == TF32)
		asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
								 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
								 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
	else
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
								 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
								 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Stores VALUES neighbouring values of a row as float32 or bfloat16.
template <bool HALF, int VALUES> INLINE void store_row(char *to, const float *v) {
	if constexpr (HALF && VALUES == 8)
		*(words4 *)to = words4{pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7])};
	else
#pragma unroll
		for (int i = 0; i < VALUES; i += 4) {
			float4 f = {v[i], v[i + 1], v[i + 2], v[i + 3]};
			if constexpr (HALF) store4((bf16 *)to + i, f);
			else store4((float *)to + i, f);
		}
}

constexpr int max_of(int a, int b) { return a > b ? a : b; }

// Adds what SPLIT parts of a block computed of the same outputs: WARPS warps a part, each thread with R x C sums, in memory of
// SPLIT / 2 tiles. It says whether this thread is of part 0, which has the sums then. All threads of the block call it.
template <int SPLIT, int WARPS, int R, int C> INLINE bool sum_parts(float *memory, float (&acc)[R][C], int warp, int part) {
	if constexpr (SPLIT > 1) {
		await_all_copies();
		SYNC();
#pragma unroll
		for (int half = SPLIT / 2; half; half /= 2) {
			float *at = memory + (part % half * WARPS + warp) * R * C * 32 + LANE;
			if (half <= part && part < 2 * half)
#pragma unroll
				for (int i = 0; i < R * C; i++) at[i * 32] = acc[i / C][i % C];
			SYNC();
			if (part < half)
#pragma unroll
				for (int i = 0; i < R * C; i++) acc[i / C][i % C] += at[i * 32];
			if (half > 1) SYNC();
		}
	}
	return part == 0;
}
