// elementwise_template.h is a template: operations that stand alone in a plan without fusion, shortcut A, and global average
// pooling. All are bound by memory, so they are as plain as can be.

static void relu(const void *x, void *y, size_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
	for (size_t i = 0; i < n / BLOCK; i++)
		store((stored *)y + i * BLOCK, rectify(load((const stored *)x + i * BLOCK)));
}

static void relu_backward(const void *y, const void *dy, void *dx, size_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
	for (size_t i = 0; i < n / BLOCK; i++) {
		vec out = load((const stored *)y + i * BLOCK);
		store((stored *)dx + i * BLOCK, keep(~(out <= 0), load((const stored *)dy + i * BLOCK)));
	}
}

static void add(const void *a, const void *b, void *y, size_t n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
	for (size_t i = 0; i < n / BLOCK; i++)
		store((stored *)y + i * BLOCK, load((const stored *)a + i * BLOCK) + load((const stored *)b + i * BLOCK));
}

static void subsample(const void *x, void *y, gt_shape s, int c_out, int stride, int threads) {
	int in = s.c / BLOCK, out = c_out / BLOCK;
	int h = (s.h + stride - 1) / stride, w = (s.w + stride - 1) / stride;
#pragma omp parallel for num_threads(threads) schedule(static)
	for (int task = 0; task < s.n * out; task++) {
		int image = task / out, block = task % out;
		stored *to = (stored *)y + (size_t)task * h * w * BLOCK;
		if (block >= in) {
			memset(to, 0, (size_t)h * w * BLOCK * sizeof(stored));
			continue;
		}
		const stored *from = (const stored *)x + ((size_t)image * in + block) * s.h * s.w * BLOCK;
		for (int i = 0; i < h; i++)
			for (int j = 0; j < w; j++)
				memcpy(to + ((size_t)i * w + j) * BLOCK, from + ((size_t)i * s.w + j) * stride * BLOCK, BLOCK * sizeof(stored));
	}
}

static void subsample_backward(const void *dy, void *dx, gt_shape s, int c_out, int stride, int threads) {
	int in = s.c / BLOCK, out = c_out / BLOCK;
	int h = (s.h + stride - 1) / stride, w = (s.w + stride - 1) / stride;
#pragma omp parallel for num_threads(threads) schedule(static)
	for (int task = 0; task < s.n * in; task++) {
		int image = task / in, block = task % in;
		stored *to = (stored *)dx + (size_t)task * s.h * s.w * BLOCK;
		memset(to, 0, (size_t)s.h * s.w * BLOCK * sizeof(stored));
		if (block >= out) continue;
		const stored *from = (const stored *)dy + ((size_t)image * out + block) * h * w * BLOCK;
		for (int i = 0; i < h; i++)
			for (int j = 0; j < w; j++)
				memcpy(to + ((size_t)i * s.w + j) * stride * BLOCK, from + ((size_t)i * w + j) * BLOCK, BLOCK * sizeof(stored));
	}
}

static void avgpool(const void *x, float *y, gt_shape s, int threads) {
	size_t plane = (size_t)s.h * s.w;
#pragma omp parallel for num_threads(threads) schedule(static)
	for (int block = 0; block < s.n * (s.c / BLOCK); block++) {
		const stored *from = (const stored *)x + block * plane * BLOCK;
		vec sum = {};
		for (size_t i = 0; i < plane; i++) sum += load(from + i * BLOCK);
		store_float(y + (size_t)block * BLOCK, sum / (float)plane);
	}
}

static void avgpool_backward(const float *dy, void *dx, gt_shape s, int threads) {
	size_t plane = (size_t)s.h * s.w;
#pragma omp parallel for num_threads(threads) schedule(static)
	for (int block = 0; block < s.n * (s.c / BLOCK); block++) {
		stored *to = (stored *)dx + block * plane * BLOCK;
		vec each = load_float(dy + (size_t)block * BLOCK) / (float)plane;
		for (size_t i = 0; i < plane; i++) store(to + i * BLOCK, each);
	}
}
