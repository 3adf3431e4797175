// batchnorm_template.h is a template: batch norm (Ioffe and Szegedy, 2015) forward, with the addition and the rectification that
// follow it in a ResNet, in two passes over memory. Memory bounds it, so the second pass goes through the planes backwards
// and finds in cache what the first one read last.
//
// A sum runs in float32 over a chunk of a plane, and in float64 over the chunks, in their order: its bits depend neither on
// the number of threads nor on how they share the work.

#define GROUP 4   // pixels at a time: independent sums hide the latency of an addition
#define CHUNK 256 // pixels of a partial sum

static size_t chunks_of(gt_shape s) { return ((size_t)s.h * s.w + CHUNK - 1) / CHUNK; }

// Two partial sums for each chunk of each plane, [plane][chunk][2][B], and a pivot for each channel.
static size_t bn_scratch(gt_shape s, int threads) {
	(void)threads;
	return (size_t)s.n * chunks_of(s) * s.c * 2 + s.c;
}

// A thread's planes, in the order in which they lie in memory: plane i is channel block i % (C/B) of image i / (C/B). Going
// through memory in a row suits the prefetchers, and uses all sets of the caches.
typedef struct { size_t from, to; } range;

static range planes_of(gt_shape s) {
	size_t planes = (size_t)s.n * (s.c / BLOCK), threads = omp_get_num_threads(), id = omp_get_thread_num();
	return (range){planes * id / threads, planes * (id + 1) / threads};
}

// The pixels of chunk i.
static size_t pixels_of(gt_shape s, size_t i) {
	size_t rest = (size_t)s.h * s.w - i * CHUNK;
	return rest < CHUNK ? rest : CHUNK;
}

// Adds up the pairs of partial sums of a channel block.
static void total(gt_shape s, int block, const float *partial, double *first, double *second) {
	size_t plane = chunks_of(s) * 2 * BLOCK;
	for (int k = 0; k < BLOCK; k++) first[k] = second[k] = 0;
	for (int image = 0; image < s.n; image++) {
		const float *p = partial + ((size_t)image * (s.c / BLOCK) + block) * plane;
		for (const float *end = p + plane; p < end; p += 2 * BLOCK)
			for (int k = 0; k < BLOCK; k++) {
				first[k] += p[k];
				second[k] += p[BLOCK + k];
			}
	}
}

// Sums x - pivot and its square over a chunk.
static void moments(const float *x, size_t pixels, vec pivot, float *partial) {
	vec sum[GROUP] = {}, square[GROUP] = {};
	size_t i = 0;
	for (; i + GROUP <= pixels; i += GROUP)
		for (int k = 0; k < GROUP; k++) {
			vec d = load_float(x + (i + k) * BLOCK) - pivot;
			sum[k] += d;
			square[k] += d * d;
		}
	for (; i < pixels; i++) {
		vec d = load_float(x + i * BLOCK) - pivot;
		sum[0] += d;
		square[0] += d * d;
	}
	store_float(partial, (sum[0] + sum[1]) + (sum[2] + sum[3]));
	store_float(partial + BLOCK, (square[0] + square[1]) + (square[2] + square[3]));
}

// y = relu?((x - mean) * scale + shift + addend?)
typedef struct {
	const float *x;
	const stored *addend;
	stored *y;
	int relu;
	vec mean, scale, shift;
} affine;

INLINE void affine_group(const affine *p, size_t at, const int group) {
	vec v[GROUP];
	for (int k = 0; k < group; k++) v[k] = (load_float(p->x + at + k * BLOCK) - p->mean) * p->scale + p->shift;
	if (p->addend)
		for (int k = 0; k < group; k++) v[k] += load(p->addend + at + k * BLOCK);
	if (p->relu)
		for (int k = 0; k < group; k++) v[k] = rectify(v[k]);
	for (int k = 0; k < group; k++) store(p->y + at + k * BLOCK, v[k]);
}

static void affine_plane(const affine *p, size_t at, size_t pixels) {
	size_t i = 0;
	for (; i + GROUP <= pixels; i += GROUP) affine_group(p, at + i * BLOCK, GROUP);
	for (; i < pixels; i++) affine_group(p, at + i * BLOCK, 1);
}

// The affine map of a channel block, of whatever statistics.
INLINE affine affine_of(const gt_batchnorm *p, int block, const float *mean, vec invstd) {
	affine a = {.x = p->x, .addend = p->addend, .y = p->y, .relu = p->relu};
	a.mean = load_float(mean + block * BLOCK);
	a.scale = load_float(p->gamma + block * BLOCK) * invstd;
	a.shift = load_float(p->beta + block * BLOCK);
	return a;
}

// The statistics of a channel block, from the sums over all images of x - pivot and its square.
static void statistics(const gt_batchnorm *p, int block, const float *partial, const float *pivot) {
	double count = (double)p->s.n * p->s.h * p->s.w, update = p->update, sum[BLOCK], square[BLOCK];
	total(p->s, block, partial, sum, square);
	for (int k = 0; k < BLOCK; k++) {
		int c = block * BLOCK + k;
		double shift = sum[k] / count, mean = pivot[c] + shift, variance = square[k] / count - shift * shift;
		variance = variance < 0 ? 0 : variance;
		double unbiased = count > 1 ? variance * count / (count - 1) : variance;
		p->mean[c] = (float)mean;
		p->invstd[c] = (float)(1 / sqrt(variance + p->epsilon));
		p->running_mean[c] = (float)((1 - update) * p->running_mean[c] + update * mean);
		p->running_var[c] = (float)((1 - update) * p->running_var[c] + update * unbiased);
	}
}

static void bn_train(const gt_batchnorm *p) {
	gt_shape s = p->s;
	size_t pixels = (size_t)s.h * s.w, chunks = chunks_of(s);
	int blocks = s.c / BLOCK;
	if (!s.n || !pixels) return;
	float *pivot = p->scratch, *partial = p->scratch + s.c;
#pragma omp parallel num_threads(p->threads)
	{
		range r = planes_of(s);
		const float *x = p->x;

		// Squares are summed about the mean of a first chunk: near enough to the mean of all that little cancels, since a
		// chunk far from the others would itself raise the variance.
#pragma omp for schedule(static)
		for (int block = 0; block < blocks; block++) {
			float first[2 * BLOCK];
			moments(x + block * pixels * BLOCK, pixels_of(s, 0), (vec){}, first);
			store_float(pivot + block * BLOCK, load_float(first) / (float)pixels_of(s, 0));
		}
		for (size_t plane = r.from; plane < r.to; plane++) {
			vec about = load_float(pivot + plane % blocks * BLOCK);
			for (size_t i = 0; i < chunks; i++)
				moments(x + (plane * pixels + i * CHUNK) * BLOCK, pixels_of(s, i), about, partial + (plane * chunks + i) * 2 * BLOCK);
		}
#pragma omp barrier
#pragma omp for schedule(static)
		for (int block = 0; block < blocks; block++) statistics(p, block, partial, pivot);
		for (size_t plane = r.to; plane-- > r.from;) {
			int block = (int)(plane % blocks);
			affine a = affine_of(p, block, p->mean, load_float(p->invstd + block * BLOCK));
			affine_plane(&a, plane * pixels * BLOCK, pixels);
		}
	}
}

static void bn_infer(const gt_batchnorm *p) {
	gt_shape s = p->s;
	size_t pixels = (size_t)s.h * s.w;
	int blocks = s.c / BLOCK;
#pragma omp parallel for num_threads(p->threads) schedule(static)
	for (int plane = 0; plane < s.n * blocks; plane++) {
		int block = plane % blocks;
		float invstd[BLOCK];
		for (int k = 0; k < BLOCK; k++) invstd[k] = (float)(1 / sqrt((double)p->running_var[block * BLOCK + k] + p->epsilon));
		affine a = affine_of(p, block, p->running_mean, load_float(invstd));
		affine_plane(&a, plane * pixels * BLOCK, pixels);
	}
}
