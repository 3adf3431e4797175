// winograd_template.h is a template: 3x3 convolutions with stride 1 and padding 1 by Winograd's method (Lavin and Gray, 2016),
// fused: a thread takes a batch of tiles that fits its cache, transforms them, multiplies position by position, and
// transforms back.
//
// Forward with float storage uses tiles of 4x2 outputs, whose rounding error is that of a direct sum (the signs that ReLU
// sees hang on it), with 3 multiplications per output instead of 9; all else uses 4x4, with 2.25.
//
// All is float arithmetic, but for the products of the backward pass on processors that multiply bfloat16: there tiles and
// weights are rounded to it once they are transformed. Forward that would flip ReLUs; backward it costs the cosine of the
// gradients of ResNet-20 with the exact ones 0.0003 at most.

#include "winograd.h"
#include "winograd_transform_template.h"
#include "winograd_gemm_template.h"
#include "winograd_tiles_template.h"

// Tiles of 4x4 forward would be 1.3 times as fast in float, with an error relative to the norm of 0.48e-6 at 16 channels and
// 0.64e-6 at 64 instead of 0.28e-6 and 0.37e-6; a plain direct sum has 0.21e-6 and 0.40e-6.

// m, the columns of a tile's outputs.
static int winograd_width(int what) { return !BF16 && what == GT_FORWARD ? 2 : 4; }

// Too few tiles do not pay for transforming the weights, nor do images of which much of the tiles sticks out. Where the
// transformed weights, 36 floats each, exceed all caches, a direct convolution in bfloat16 is faster, and finally in float.
static int NAME(winograd_supports)(gt_shape s, int c_out, int what) {
	const size_t most = BF16 ? 256 * 256 : 512 * 512;
	if (s.c < BLOCK || c_out < BLOCK || s.c % BLOCK || c_out % BLOCK || (size_t)s.c * c_out > most) return 0;
	const winograd_tiles g = winograd_tiles_of(s, winograd_width(what));
	return g.count >= 64 && 2 * g.count * TALL * g.m <= 3 * (size_t)s.n * s.h * s.w;
}

// Floats of `blocks` blocks of channels of a batch of tiles.
static size_t batch_floats(int m, int blocks) { return (size_t)winograd_positions(m) * blocks * PLANE; }

static size_t NAME(winograd_scratch)(gt_shape s, int c_out, int threads, int what) {
	const int m = winograd_width(what);
	const size_t weights = (size_t)winograd_positions(m) * s.c * c_out;
	if (what == GT_BACKWARD_WEIGHTS) return threads * (weights + batch_floats(m, (s.c + c_out) / BLOCK));
	return weights + threads * batch_floats(m, (what == GT_FORWARD ? s.c : c_out) / BLOCK + PANEL);
}

// U of one input channel k and one block of outputs. Backward, in and out change places and the kernel is rotated.
INLINE void transform_weights(int form, int m, int backward, const float *weight, int c_in, int k, int out, float *u, size_t stride) {
	const int size = m + 2;
	float taps[9][BLOCK];
	for (int l = 0; l < BLOCK; l++) {
		const float *from = backward ? weight + ((size_t)k * c_in + out + l) * 9 : weight + ((size_t)(out + l) * c_in + k) * 9;
		for (int i = 0; i < 9; i++) taps[i][l] = from[backward ? 8 - i : i];
	}
	vec g[3], line[TALL_IN], s[TALL_IN][3];
	UNROLL for (int j = 0; j < 3; j++) {
		UNROLL for (int i = 0; i < 3; i++) g[i] = load_float(taps[i * 3 + j]);
		winograd_weight(TALL, g, line);
		UNROLL for (int i = 0; i < TALL_IN; i++) s[i][j] = line[i];
	}
	UNROLL for (int i = 0; i < TALL_IN; i++) {
		winograd_weight(m, s[i], line);
		UNROLL for (int j = 0; j < size; j++) put(form, u + (i * size + j) * stride, line[j]);
	}
}

// One thread's share of the tiles of a convolution.
INLINE void convolve_part(int m, int forward, const winograd_tiles *g, size_t from, size_t to, const stored *x, int in, void *y,
	int out, const float *weights, float *scratch) {
	const int positions = winograd_positions(m), paired = PAIRED && !forward, form = paired ? CHANNELS : FLOATS;
	const size_t plane = plane_of(form), step = positions * plane, bytes = forward ? sizeof(float) : sizeof(stored);
	const size_t image = (size_t)g->h * g->w * BLOCK * bytes, m_step = positions * PLANE;
	float *const v = scratch, *const products = v + in * step;
	for (size_t end, next; from < to; from = end) {
		end = to - from < BATCH ? to : from + BATCH;
		next = to - end < BATCH ? to : end + BATCH;
		const int count = (int)(end - from);
		winograd_tile first = winograd_tile_at(g, from), t = first;
		for (int i = 0; i < count; i++, winograd_tile_next(g, &t)) {
			transform_input(form, m, g, t, x, in, v + i * (paired ? BLOCK / 2 : BLOCK));
		}
		const float *u = weights;
		for (int o = 0; o < out; o += PANEL) {
			const int width = out - o < PANEL ? out - o : PANEL;
			for (int p = 0; p < positions; p++, u += (size_t)in * BLOCK * width * BLOCK / (paired ? 2 : 1)) {
				if (o == 0) prefetch_share(m, g, end, next, p, x, sizeof(stored), in, in);
				prefetch_share(m, g, from, end, p, (char *)y + o * image, bytes, out, width);
				if (paired) winograd_multiply_pairs(width, count, v + p * plane, step, in, u, products + p * PLANE, m_step);
				else winograd_multiply(width, count, v + p * plane, step, in, u, products + p * PLANE, m_step);
			}
			t = first;
			for (int i = 0; i < count; i++, winograd_tile_next(g, &t)) {
				transform_output(m, forward, g, t, products + i * BLOCK, y, o, out, width);
			}
		}
	}
}

static void convolve(int forward, const gt_winograd *p, const stored *x, int c_in, void *y, int c_out) {
	const int m = forward ? winograd_width(GT_FORWARD) : 4;
	const winograd_tiles g = winograd_tiles_of(p->s, m);
	const int positions = winograd_positions(m), in = c_in / BLOCK, out = c_out / BLOCK, threads = p->threads;
	float *const weights = p->scratch, *const rest = weights + (size_t)positions * c_in * c_out;
	const size_t part = batch_floats(m, in + PANEL);

	const int paired = PAIRED && !forward, rows = paired ? c_in / 2 : c_in; // of U
	#pragma omp parallel for num_threads(threads) schedule(static)
	for (int k = 0; k < rows; k++) {
		for (int o = 0; o < out; o++) {
			const int panel = o / PANEL * PANEL, width = out - panel < PANEL ? out - panel : PANEL;
			const size_t row = width * BLOCK, stride = rows * row;
			float *u = weights + (size_t)positions * rows * panel * BLOCK + k * row + (o - panel) * BLOCK;
			if (paired) {
				transform_weights(FIRST, 4, 1, p->weight, p->s.c, 2 * k, o * BLOCK, u, stride);
				transform_weights(SECOND, 4, 1, p->weight, p->s.c, 2 * k + 1, o * BLOCK, u, stride);
			} else if (BF16 || m == 4) {
				transform_weights(FLOATS, 4, !forward, p->weight, p->s.c, k, o * BLOCK, u, stride);
			} else {
				transform_weights(FLOATS, 2, !forward, p->weight, p->s.c, k, o * BLOCK, u, stride);
			}
		}
	}
	#pragma omp parallel for num_threads(threads) schedule(static)
	for (int i = 0; i < threads; i++) {
		const size_t from = g.count * i / threads, to = g.count * (i + 1) / threads;
		if (!forward) convolve_part(4, 0, &g, from, to, x, in, y, out, weights, rest + i * part);
		else convolve_part(winograd_width(GT_FORWARD), 1, &g, from, to, x, in, y, out, weights, rest + i * part);
	}
}

static void NAME(winograd_forward)(const gt_winograd *p) {
	convolve(1, p, p->x, p->s.c, p->y, p->c_out);
}

static void NAME(winograd_backward_data)(const gt_winograd *p) { convolve(0, p, p->dy, p->c_out, p->dx, p->s.c); }

// One thread's share of the tiles of the weights' gradient: dU in `sum`, laid out as the weights' U.
INLINE void weights_part(int m, const winograd_tiles *g, size_t from, size_t to, const stored *x, int in, const stored *dy,
	int out, float *sum, float *scratch) {
	const int positions = winograd_positions(m);
	const size_t plane = plane_of(PAIRED ? FIRST : FLOATS), step = positions * plane;
	float *const v = scratch, *const d = v + in * step;
	if (from == to) memset(sum, 0, positions * (size_t)in * out * BLOCK * BLOCK * sizeof(float));
	int set = 1;
	for (size_t end, next; from < to; from = end, set = 0) {
		end = to - from < BATCH ? to : from + BATCH;
		next = to - end < BATCH ? to : end + BATCH;
		const int count = (int)(end - from);
		winograd_tile t = winograd_tile_at(g, from);
		for (int i = 0; i < count; i++, winograd_tile_next(g, &t)) {
			const int form = !PAIRED ? FLOATS : i % 2 ? SECOND : FIRST, at = (PAIRED ? i / 2 : i) * BLOCK;
			transform_input(form, m, g, t, x, in, v + at);
			transform_gradient(form, g, t, dy, out, d + at);
		}
		if (PAIRED && count % 2) { // the last becomes a pair with zeros
			float *last = v + count / 2 * BLOCK;
			for (size_t i = 0; i < (size_t)(in + out) * positions; i++) put(SECOND, last + i * plane, (vec){});
		}
		float *u = sum;
		for (int o = 0; o < out; o += PANEL) {
			const int width = out - o < PANEL ? out - o : PANEL;
			for (int p = 0; p < positions; p++) {
				if (o == 0) {
					prefetch_share(m, g, end, next, p, x, sizeof(stored), in, in);
					prefetch_share(m, g, end, next, p, dy, sizeof(stored), out, out);
				}
				for (int c = 0; c < in; c++, u += BLOCK * width * BLOCK) {
					winograd_accumulate(width, set, count, v + p * plane + c * step, d + p * plane + o * step, step, u);
				}
			}
		}
	}
}

// dweight of one input channel k and one block of outputs, of the sums of all parts in their order.
INLINE void transform_weight_gradient(int m, const float *u, size_t stride, size_t part, int parts, float *dweight,
	int c_in) {
	const int size = m + 2;
	vec d[TALL_IN], g[3], s[3][WIDEST_IN];
	UNROLL for (int j = 0; j < size; j++) {
		UNROLL for (int i = 0; i < TALL_IN; i++) {
			const float *at = u + (i * size + j) * stride;
			d[i] = load_float(at);
			for (int k = 1; k < parts; k++) d[i] += load_float(at + k * part);
		}
		winograd_weight_gradient(TALL, d, g);
		UNROLL for (int i = 0; i < 3; i++) s[i][j] = g[i];
	}
	UNROLL for (int i = 0; i < 3; i++) {
		winograd_weight_gradient(m, s[i], g);
		UNROLL for (int j = 0; j < 3; j++) for (int l = 0; l < BLOCK; l++) dweight[(size_t)l * c_in * 9 + i * 3 + j] = g[j][l];
	}
}

static void NAME(winograd_backward_weights)(const gt_winograd *p) {
	enum { M = 4, POSITIONS = TALL_IN * (M + 2) };
	const winograd_tiles g = winograd_tiles_of(p->s, M);
	const int c_in = p->s.c, in = c_in / BLOCK, out = p->c_out / BLOCK, threads = p->threads;
	const size_t weights = (size_t)POSITIONS * c_in * p->c_out;
	const size_t part = weights + batch_floats(M, in + out);

	#pragma omp parallel for num_threads(threads) schedule(static)
	for (int i = 0; i < threads; i++) {
		float *sum = p->scratch + i * part;
		weights_part(M, &g, g.count * i / threads, g.count * (i + 1) / threads, p->x, in, p->dy, out, sum, sum + weights);
	}
	#pragma omp parallel for num_threads(threads) schedule(static)
	for (int k = 0; k < c_in; k++) {
		for (int o = 0; o < out; o++) {
			const int panel = o / PANEL * PANEL, width = out - panel < PANEL ? out - panel : PANEL;
			const size_t row = width * BLOCK;
			const float *u = p->scratch + (size_t)POSITIONS * c_in * panel * BLOCK + k * row + (o - panel) * BLOCK;
			transform_weight_gradient(M, u, c_in * row, part, threads, p->dweight + ((size_t)o * BLOCK * c_in + k) * 9, c_in);
		}
	}
}
