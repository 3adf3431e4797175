// gather.cu makes images of a batch: from the set of bytes on the device and a sample plan, or from host values. A thread makes a
// pixel; reads are coalesced along a row of a plane, writes are whole pixels.
#include "gt.h"

// What becomes of one sample, see graph.Sample.
struct sample {
	int index;
	short y, x;
	int flip;
};

template <typename T, typename V> INLINE void write_pixel(T *to, int channels, V value) {
	for (int c = 0; c < channels; c += 4) {
		float4 v;
		for (int k = 0; k < 4; k++) v[k] = c + k < channels ? value(c + k) : 0.0f;
		store4(to + c, v);
	}
	if ((channels + 3 & ~3) % 8) store4(to + (channels + 3 & ~3), (float4){0, 0, 0, 0});
}

template <typename T>
INLINE void gather(const u8 *pixels, const int *set_labels, const float *table, const float *fill, const sample *plan, T *images, int *labels,
	int n, int channels, int h, int w) {
	int i = BLOCK * 256 + THREAD, padded = (channels + 7) / 8 * 8;
	if (i >= n * h * w) return;
	int column = i % w, row = i / w % h, image = i / (h * w);
	sample s = plan[image];
	if (row == 0 && column == 0) labels[image] = set_labels[s.index];
	int x = (s.flip ? w - 1 - column : column) + s.x, y = row + s.y;
	bool inside = (u32)x < (u32)w && (u32)y < (u32)h;
	const u8 *from = pixels + (i64)s.index * channels * h * w + (y * w + x);
	write_pixel(images + (i64)i * padded, channels, [&](int c) { return inside ? table[c * 256 + from[c * h * w]] : fill[c]; });
}

KERNEL(256) gather_f32(const u8 *pixels, const int *set_labels, const float *table, const float *fill, const sample *plan, float *images,
	int *labels, int n, int channels, int h, int w) {
	gather(pixels, set_labels, table, fill, plan, images, labels, n, channels, h, w);
}
KERNEL(256) gather_bf16(const u8 *pixels, const int *set_labels, const float *table, const float *fill, const sample *plan, bf16 *images,
	int *labels, int n, int channels, int h, int w) {
	gather(pixels, set_labels, table, fill, plan, images, labels, n, channels, h, w);
}

template <typename T> INLINE void interleave(const float *planes, T *images, int n, int channels, int area) {
	int i = BLOCK * 256 + THREAD, padded = (channels + 7) / 8 * 8;
	if (i >= n * area) return;
	const float *from = planes + (i64)(i / area) * channels * area + i % area;
	write_pixel(images + (i64)i * padded, channels, [&](int c) { return from[(i64)c * area]; });
}

KERNEL(256) interleave_f32(const float *planes, float *images, int n, int channels, int area) { interleave(planes, images, n, channels, area); }
KERNEL(256) interleave_bf16(const float *planes, bf16 *images, int n, int channels, int area) { interleave(planes, images, n, channels, area); }
