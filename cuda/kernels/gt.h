// gt.h is what the kernels share: the words of CUDA that they use, for clang without NVIDIA's toolkit; loads and stores of several
// channels at a time in both storage types; sums over warps; exp and log without a library.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ __attribute__((always_inline)) inline
#define INLINE static __device__ __forceinline__

// KERNEL starts a kernel of blocks of so many threads at most. With a count of blocks that have to fit on a multiprocessor, one, the
// assembler uses the registers that it needs; by its own rules it spills a few so that more blocks fit.
#define KERNEL(threads) extern "C" __global__ __launch_bounds__(threads, 1) void

#define THREAD ((int)__nvvm_read_ptx_sreg_tid_x())
#define THREADS ((int)__nvvm_read_ptx_sreg_ntid_x())
#define BLOCK ((int)__nvvm_read_ptx_sreg_ctaid_x())
#define BLOCK_Y ((int)__nvvm_read_ptx_sreg_ctaid_y())
#define BLOCK_Z ((int)__nvvm_read_ptx_sreg_ctaid_z())
#define BLOCKS ((int)__nvvm_read_ptx_sreg_nctaid_x())
#define LANE (THREAD & 31)

#define SYNC() __syncthreads()
#define FENCE() __nvvm_membar_gl()
#define ALL 0xffffffffu
#define BALLOT(p) ((u32)__nvvm_vote_ballot_sync(ALL, (p)))

// Storage types: bf16 is the upper half of a float.
typedef u16 bf16;

typedef u32 words2 __attribute__((ext_vector_type(2)));
typedef u32 words4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));

INLINE float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
INLINE u32 bits_of(float v) { return __builtin_bit_cast(u32, v); }

// Two values as bfloat16, to nearest even, the first in the lower half.
INLINE u32 pack(float low, float high) {
	u32 r;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
	return r;
}

INLINE float low_of(u32 pair) { return float_of(pair << 16); }
INLINE float high_of(u32 pair) { return float_of(pair & 0xffff0000u); }

// One value.
INLINE float load(const float *p) { return *p; }
INLINE float load(const bf16 *p) { return float_of((u32)*p << 16); }
INLINE void store(float *p, float v) { *p = v; }
INLINE void store(bf16 *p, float v) { *p = (bf16)pack(v, 0); }

// Four consecutive channels: 16 bytes, or 8 of bfloat16. p is aligned to them.
INLINE float4 load4(const float *p) { return *(const float4 *)p; }
INLINE float4 load4(const bf16 *p) {
	words2 w = *(const words2 *)p;
	return (float4){low_of(w.x), high_of(w.x), low_of(w.y), high_of(w.y)};
}
INLINE void store4(float *p, float4 v) { *(float4 *)p = v; }
INLINE void store4(bf16 *p, float4 v) { *(words2 *)p = (words2){pack(v.x, v.y), pack(v.z, v.w)}; }

// Reads of a neighbour's value, by all 32 lanes.
INLINE float from_lane(float v, int lane) { return __nvvm_shfl_sync_idx_f32(ALL, v, lane, 31); }
INLINE float from_xor(float v, int d) { return __nvvm_shfl_sync_bfly_f32(ALL, v, d, 31); }
INLINE float from_down(float v, int d) { return __nvvm_shfl_sync_down_f32(ALL, v, d, 31); }
INLINE int from_xor(int v, int d) { return __nvvm_shfl_sync_bfly_i32(ALL, v, d, 31); }
INLINE double from_down(double v, int d) {
	u64 b = __builtin_bit_cast(u64, v);
	u32 low = (u32)__nvvm_shfl_sync_down_i32(ALL, (int)(u32)b, d, 31), high = (u32)__nvvm_shfl_sync_down_i32(ALL, (int)(u32)(b >> 32), d, 31);
	return __builtin_bit_cast(double, (u64)high << 32 | low);
}

// Sums over a warp in an order that is always the same.
INLINE float warp_sum(float v) {
	for (int d = 16; d; d >>= 1) v += from_xor(v, d);
	return v;
}

INLINE int min(int a, int b) { return a < b ? a : b; }
INLINE int max(int a, int b) { return a > b ? a : b; }

// max(v, 0) that lets NaN through.
INLINE float rectify(float v) { return v <= 0 ? 0 : v; }

INLINE bool finite(float v) { return (bits_of(v) & 0x7f800000) != 0x7f800000; }
INLINE bool finite(double v) { return v - v == 0; }

// last says whether this block is the last of so many to come here, and lets its threads see what the others wrote before. The
// counter starts at 0 and is left at 0. All threads of the block call it, whichever of them wrote.
INLINE bool last(u32 *counter, u32 blocks) {
	__shared__ u32 ticket;
	FENCE();
	SYNC();
	if (THREAD == 0) ticket = __nvvm_atom_inc_gen_ui(counter, blocks - 1);
	SYNC();
	FENCE();
	return ticket == blocks - 1;
}
