// strided_template.h is a template: the gradient of the weights of a strided convolution, where the processor multiplies pairs of
// bfloat16. It is the product of Winograd's method for weights (winograd_gemm_template.h) without its transforms: a tile is one
// pixel of the output, and a position is a tap of the kernel, whose V is the pixel of the input that it falls on.

// V lies as [block of inputs][tap][pixel / 2][BLOCK] and D as [block of outputs][pixel / 2][BLOCK], both in words of two
// pixels, PLANE words for a batch of so many pixels:
enum { PIXELS = 2 * BATCH };

enum { MOST_TAPS = 9 };

// Floats of scratch memory, or 0 where a direct convolution does it better.
static size_t NAME(strided_scratch)(gt_shape s, int c_out, gt_taps w, int threads) {
	const int taps = w.kernel * w.kernel;
	const size_t weights = (size_t)s.c * c_out * taps;
	if (!PAIRED || s.c % BLOCK || c_out % BLOCK || taps > MOST_TAPS || weights > 256 * 256 * 9) return 0;
	return threads * (weights + (size_t)(s.c / BLOCK * taps + c_out / BLOCK) * PLANE);
}

#if PAIRED

// Two pixels of a block of channels beside each other.
INLINE vec pair_of(const stored *first, const stored *second) {
	const __m512i row = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)first));
	return interleave(_mm512_inserti64x4(row, _mm256_loadu_si256((const __m256i *)second), 1));
}

// What a pixel of the output sees of the input: the image, and where the window starts in it. No pixel sees zeros only.
typedef struct { const stored *x; int top, left; } view;

static const view nothing;

// Its window in the channels c * BLOCK and following: in place, or where it sticks out of the image copied, with zeros around.
// A row of it is `line` values from the next.
INLINE const stored *window_of(const gt_strided *p, const view *v, int c, stored *copy, size_t *line) {
	const gt_shape s = p->s;
	const int kernel = p->window.kernel;
	const stored *x = v->x + (size_t)c * s.h * s.w * BLOCK;
	if (v->x && v->top >= 0 && v->left >= 0 && v->top + kernel <= s.h && v->left + kernel <= s.w) {
		*line = (size_t)s.w * BLOCK;
		return x + ((size_t)v->top * s.w + v->left) * BLOCK;
	}
	*line = kernel * BLOCK;
	memset(copy, 0, kernel * kernel * BLOCK * sizeof(stored));
	for (int tap = 0; v->x && tap < kernel * kernel; tap++) {
		const int row = v->top + tap / kernel, column = v->left + tap % kernel;
		if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
		memcpy(copy + tap * BLOCK, x + ((size_t)row * s.w + column) * BLOCK, BLOCK * sizeof(stored));
	}
	return copy;
}

// Puts what two pixels see into V. kernel is a constant where this is inlined, or just p's.
INLINE void put_windows(int kernel, const gt_strided *p, const view *first, const view *second, float *v) {
	for (int c = 0; c < p->s.c / BLOCK; c++) {
		stored copy[2][MOST_TAPS * BLOCK];
		size_t line[2];
		const stored *a = window_of(p, first, c, copy[0], &line[0]), *b = window_of(p, second, c, copy[1], &line[1]);
		UNROLL for (int i = 0; i < kernel; i++) {
			UNROLL for (int j = 0; j < kernel; j++, v += PLANE) {
				store_float(v, pair_of(a + i * line[0] + j * BLOCK, b + i * line[1] + j * BLOCK));
			}
		}
	}
}

// One thread's share of the pixels of the output, into `sum`: [panel of outputs][tap][input][output].
static void strided_part(const gt_strided *p, size_t from, size_t to, float *sum, float *scratch) {
	const gt_shape s = p->s, y = p->y;
	const gt_taps w = p->window;
	const int taps = w.kernel * w.kernel, in = s.c / BLOCK, out = y.c / BLOCK;
	const size_t image = (size_t)s.h * s.w * BLOCK, pixels = (size_t)y.h * y.w;
	float *const v = scratch, *const d = v + (size_t)in * taps * PLANE;
	static const stored zeros[BLOCK];
	if (from == to) memset(sum, 0, (size_t)s.c * y.c * taps * sizeof(float));
	int set = 1;
	for (size_t end; from < to; from = end, set = 0) {
		end = to - from < PIXELS ? to : from + PIXELS;
		const int count = (int)(end - from);
		for (int i = 0; i < count; i += 2) {
			view views[2] = {nothing, nothing};
			const stored *dy[2] = {NULL, NULL};
			for (int k = 0; k < 2 && i + k < count; k++) { // the last of an odd number makes a pair with zeros
				const size_t n = (from + i + k) / pixels, pixel = (from + i + k) % pixels;
				const int row = (int)(pixel / y.w), column = (int)(pixel % y.w);
				views[k] = (view){(const stored *)p->x + n * in * image, row * w.stride - w.pad, column * w.stride - w.pad};
				dy[k] = (const stored *)p->dy + (n * out * pixels + pixel) * BLOCK;
			}
			float *to = v + i / 2 * BLOCK;
			if (w.kernel == 3) put_windows(3, p, &views[0], &views[1], to);
			else put_windows(w.kernel, p, &views[0], &views[1], to);
			for (int o = 0; o < out; o++) {
				const size_t block = o * pixels * BLOCK;
				store_float(d + o * PLANE + i / 2 * BLOCK, pair_of(dy[0] + block, dy[1] ? dy[1] + block : zeros));
			}
		}
		float *u = sum;
		for (int o = 0; o < out; o += PANEL) {
			const int width = out - o < PANEL ? out - o : PANEL;
			for (int tap = 0; tap < taps; tap++) {
				for (int c = 0; c < in; c++, u += BLOCK * width * BLOCK) {
					winograd_accumulate(width, set, count, v + (c * taps + tap) * PLANE, d + o * PLANE, PLANE, u);
				}
			}
		}
	}
}

static void NAME(strided_weights)(const gt_strided *p) {
	const gt_shape s = p->s, y = p->y;
	const int taps = p->window.kernel * p->window.kernel, in = s.c / BLOCK, out = y.c / BLOCK, threads = p->threads;
	const size_t pixels = (size_t)y.n * y.h * y.w, weights = (size_t)s.c * y.c * taps;
	const size_t part = weights + (size_t)(in * taps + out) * PLANE;

	#pragma omp parallel for num_threads(threads) schedule(static)
	for (int i = 0; i < threads; i++) {
		float *sum = p->scratch + i * part;
		strided_part(p, pixels * i / threads, pixels * (i + 1) / threads, sum, sum + weights);
	}
	#pragma omp parallel for num_threads(threads) schedule(static)
	for (int k = 0; k < s.c; k++) {
		for (int o = 0; o < out; o++) {
			const int panel = o / PANEL * PANEL, width = out - panel < PANEL ? out - panel : PANEL;
			const size_t row = width * BLOCK;
			for (int tap = 0; tap < taps; tap++) {
				const float *u = p->scratch + (size_t)taps * s.c * panel * BLOCK + (tap * s.c + k) * row + (o - panel) * BLOCK;
				vec sum = load_float(u);
				for (int i = 1; i < threads; i++) sum += load_float(u + i * part);
				for (int l = 0; l < BLOCK; l++) p->dweight[((size_t)(o * BLOCK + l) * s.c + k) * taps + tap] = sum[l];
			}
		}
	}
}

#else

static void NAME(strided_weights)(const gt_strided *p) { (void)p; } // never called: strided_scratch is 0

#endif
