// pool.cu has poolings and shortcut A's subsampling. A thread has four channels of a pixel; memory bounds all of them.
#include "gt.h"

// Of an operation from images x to smaller ones y, both in memory.
struct window {
	int n, h, w, c;    // of x; c is padded
	int oh, ow, oc;    // of y
	int kernel, stride, pad;
	int channels; // of x, without padding
};

// The thread's place among pixels of h rows, w columns, c channels.
struct spot {
	int n, y, x, c;
	i64 at;
	bool inside;
};

INLINE spot spot_of(int n, int h, int w, int c) {
	u32 i = (u32)BLOCK * 256 + THREAD, quads = (u32)c / 4; // of at most 2^34 values
	u32 pixel = i / quads, row = pixel / (u32)w;
	return {(int)(row / (u32)h), (int)(row % (u32)h), (int)(pixel % (u32)w), (int)(i % quads) * 4, (i64)i * 4, i < (u32)n * h * w * quads};
}

template <typename T> INLINE const T *pixel(const T *x, const window &s, int n, int y, int column, int c) {
	return x + (((i64)n * s.h + y) * s.w + column) * s.c + c;
}

template <typename T> INLINE void subsample(const T *x, T *y, const window &s) {
	spot p = spot_of(s.n, s.oh, s.ow, s.oc);
	if (!p.inside) return;
	float4 v = {0, 0, 0, 0};
	if (p.c < s.c) v = load4(pixel(x, s, p.n, p.y * s.stride, p.x * s.stride, p.c));
	store4(y + p.at, v);
}

template <typename T> INLINE void subsample_backward(const T *dy, T *dx, const window &s) {
	spot p = spot_of(s.n, s.h, s.w, s.c);
	if (!p.inside) return;
	float4 v = {0, 0, 0, 0};
	if (p.y % s.stride == 0 && p.x % s.stride == 0) v = load4(dy + (((i64)p.n * s.oh + p.y / s.stride) * s.ow + p.x / s.stride) * s.oc + p.c);
	for (int k = 0; k < 4; k++)
		if (p.c + k >= s.channels) v[k] = 0; // channels of dy that x lacks
	store4(dx + p.at, v);
}

template <typename T> INLINE void max_pool(const T *x, T *y, const window &s) {
	spot p = spot_of(s.n, s.oh, s.ow, s.oc);
	if (!p.inside) return;
	float low = -__builtin_inff();
	float4 top = {low, low, low, low};
	for (int i = max(0, s.pad - p.y * s.stride); i < s.kernel; i++) {
		int iy = p.y * s.stride - s.pad + i;
		if (iy >= s.h) break;
		for (int j = max(0, s.pad - p.x * s.stride); j < s.kernel; j++) {
			int ix = p.x * s.stride - s.pad + j;
			if (ix >= s.w) break;
			float4 v = load4(pixel(x, s, p.n, iy, ix, p.c));
			for (int k = 0; k < 4; k++) top[k] = v[k] <= top[k] ? top[k] : v[k]; // NaN wins
		}
	}
	store4(y + p.at, top);
}

// Each value of x looks at the windows that it is in, and takes the gradient of those of which it is the first maximum.
template <typename T> INLINE void max_pool_backward(const T *x, const T *y, const T *dy, T *dx, const window &s) {
	spot p = spot_of(s.n, s.h, s.w, s.c);
	if (!p.inside) return;
	float4 own = load4(x + p.at), sum = {0, 0, 0, 0};
	int first = max(0, (p.y + s.pad - s.kernel + s.stride) / s.stride), left = max(0, (p.x + s.pad - s.kernel + s.stride) / s.stride);
#pragma unroll 1
	for (int oy = first; oy < s.oh && oy * s.stride - s.pad <= p.y; oy++)
#pragma unroll 1
		for (int ox = left; ox < s.ow && ox * s.stride - s.pad <= p.x; ox++) {
			i64 at = (((i64)p.n * s.oh + oy) * s.ow + ox) * s.oc + p.c;
			float4 top = load4(y + at), g = load4(dy + at);
			for (int k = 0; k < 4; k++)
				if (own[k] != top[k]) g[k] = 0;
			if (g.x == 0 && g.y == 0 && g.z == 0 && g.w == 0) continue;
			// What comes before it in the window, row by row, must be less.
#pragma unroll 1
			for (int iy = max(0, oy * s.stride - s.pad); iy <= p.y; iy++) {
				int end = iy == p.y ? p.x : min(s.w, ox * s.stride - s.pad + s.kernel);
#pragma unroll 1
				for (int ix = max(0, ox * s.stride - s.pad); ix < end; ix++) {
					float4 before = load4(pixel(x, s, p.n, iy, ix, p.c));
					for (int k = 0; k < 4; k++)
						if (before[k] == top[k]) g[k] = 0;
				}
			}
			sum += g;
		}
	store4(dx + p.at, sum);
}

// A block averages 32 channels of an image over its pixels: 8 threads along channels, 32 along pixels.
template <typename T> INLINE void average_pool(const T *x, float *y, int channels, int area) {
	__shared__ float4 sums[256];
	int padded = (channels + 7) / 8 * 8, c = (BLOCK_Y * 8 + THREAD % 8) * 4, part = THREAD / 8;
	float4 sum = {0, 0, 0, 0};
	if (c < padded)
		for (int i = part; i < area; i += 32) sum += load4(x + ((i64)BLOCK * area + i) * padded + c);
	sums[THREAD] = sum;
	for (int half = 16; half; half /= 2) {
		SYNC();
		if (part < half) sums[THREAD] += sums[THREAD + half * 8];
	}
	if (part == 0)
		for (int k = 0; k < 4; k++)
			if (c + k < channels) y[(i64)BLOCK * channels + c + k] = sums[THREAD][k] / (float)area;
}

template <typename T> INLINE void average_pool_backward(const float *dy, T *dx, int n, int channels, int area) {
	int padded = (channels + 7) / 8 * 8;
	spot p = spot_of(n, 1, area, padded);
	if (!p.inside) return;
	float4 v;
	for (int k = 0; k < 4; k++) v[k] = p.c + k < channels ? dy[(i64)p.n * channels + p.c + k] / (float)area : 0.0f;
	store4(dx + p.at, v);
}

KERNEL(256) subsample_f32(const float *x, float *y, window s) { subsample(x, y, s); }
KERNEL(256) subsample_bf16(const bf16 *x, bf16 *y, window s) { subsample(x, y, s); }
KERNEL(256) subsample_backward_f32(const float *dy, float *dx, window s) { subsample_backward(dy, dx, s); }
KERNEL(256) subsample_backward_bf16(const bf16 *dy, bf16 *dx, window s) { subsample_backward(dy, dx, s); }
KERNEL(256) max_pool_f32(const float *x, float *y, window s) { max_pool(x, y, s); }
KERNEL(256) max_pool_bf16(const bf16 *x, bf16 *y, window s) { max_pool(x, y, s); }
KERNEL(256) max_pool_backward_f32(const float *x, const float *y, const float *dy, float *dx, window s) { max_pool_backward(x, y, dy, dx, s); }
KERNEL(256) max_pool_backward_bf16(const bf16 *x, const bf16 *y, const bf16 *dy, bf16 *dx, window s) { max_pool_backward(x, y, dy, dx, s); }
KERNEL(256) average_pool_f32(const float *x, float *y, int channels, int area) { average_pool(x, y, channels, area); }
KERNEL(256) average_pool_bf16(const bf16 *x, float *y, int channels, int area) { average_pool(x, y, channels, area); }
KERNEL(256) average_pool_backward_f32(const float *dy, float *dx, int n, int channels, int area) { average_pool_backward(dy, dx, n, channels, area); }
KERNEL(256) average_pool_backward_bf16(const float *dy, bf16 *dx, int n, int channels, int area) { average_pool_backward(dy, dx, n, channels, area); }
