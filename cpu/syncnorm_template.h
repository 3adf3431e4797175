// syncnorm_template.h is a template: batch norm over the images of several workers, in the pieces between which they
// exchange what they have. What a worker computes, and in which order, is as in batchnorm_template.h and
// batchnorm_backward_template.h, whose parts these kernels are made of.

static void sync_moments(const gt_syncnorm *q) {
	const gt_batchnorm *p = &q->b;
	gt_shape s = p->s;
	size_t pixels = (size_t)s.h * s.w, chunks = chunks_of(s);
	int blocks = s.c / BLOCK;
	double count = (double)s.n * pixels, *mean = q->share, *squares = q->share + s.c;
	float *pivot = p->scratch, *partial = p->scratch + s.c;
#pragma omp parallel num_threads(p->threads)
	{
		range r = planes_of(s);
#pragma omp for schedule(static)
		for (int block = 0; block < blocks; block++) {
			float first[2 * BLOCK];
			moments(p->x + block * pixels * BLOCK, pixels_of(s, 0), (vec){}, first);
			store_float(pivot + block * BLOCK, load_float(first) / (float)pixels_of(s, 0));
		}
		for (size_t plane = r.from; plane < r.to; plane++) {
			vec about = load_float(pivot + plane % blocks * BLOCK);
			for (size_t i = 0; i < chunks; i++)
				moments(p->x + (plane * pixels + i * CHUNK) * BLOCK, pixels_of(s, i), about, partial + (plane * chunks + i) * 2 * BLOCK);
		}
#pragma omp barrier
#pragma omp for schedule(static)
		for (int block = 0; block < blocks; block++) {
			double sum[BLOCK], square[BLOCK];
			total(s, block, partial, sum, square);
			for (int k = 0; k < BLOCK; k++) {
				int c = block * BLOCK + k;
				double about = square[k] - sum[k] * sum[k] / count;
				mean[c] = pivot[c] + sum[k] / count;
				squares[c] = about < 0 ? 0 : about;
			}
		}
	}
}

static void sync_normalize(const gt_syncnorm *q) {
	const gt_batchnorm *p = &q->b;
	size_t pixels = (size_t)p->s.h * p->s.w;
	int blocks = p->s.c / BLOCK;
#pragma omp parallel num_threads(p->threads)
	{
		range r = planes_of(p->s);
		for (size_t plane = r.to; plane-- > r.from;) {
			int block = (int)(plane % blocks);
			affine a = affine_of(p, block, p->mean, load_float(p->invstd + block * BLOCK));
			affine_plane(&a, plane * pixels * BLOCK, pixels);
		}
	}
}

static void sync_sums(const gt_syncnorm *q) {
	const gt_batchnorm *p = &q->b;
	gt_shape s = p->s;
	size_t pixels = (size_t)s.h * s.w, chunks = chunks_of(s);
	int blocks = s.c / BLOCK;
#pragma omp parallel num_threads(p->threads)
	{
		range r = planes_of(s);
		for (size_t plane = r.from; plane < r.to; plane++) {
			gradient g = gradient_of(p, (int)(plane % blocks));
			for (size_t i = 0; i < chunks; i++)
				reduce(&g, (plane * pixels + i * CHUNK) * BLOCK, pixels_of(s, i), p->scratch + (plane * chunks + i) * 2 * BLOCK);
		}
#pragma omp barrier
#pragma omp for schedule(static)
		for (int block = 0; block < blocks; block++) {
			double *sum = q->share + block * BLOCK, *dot = sum + s.c;
			total(s, block, p->scratch, sum, dot);
			for (int k = 0; k < BLOCK; k++) dot[k] *= p->invstd[block * BLOCK + k];
		}
	}
}

static void sync_propagate(const gt_syncnorm *q) {
	const gt_batchnorm *p = &q->b;
	size_t pixels = (size_t)p->s.h * p->s.w;
	int blocks = p->s.c / BLOCK;
#pragma omp parallel num_threads(p->threads)
	{
		range r = planes_of(p->s);
		for (size_t plane = r.to; plane-- > r.from;) {
			int block = (int)(plane % blocks);
			gradient g = gradient_of(p, block);
			if (g.keep) { // g is there
				g.dy = g.keep;
				g.dy2 = g.y = NULL;
				g.by_x = 0;
			}
			const float *means = q->means + block * BLOCK;
			g.dx_mean = g.scale * load_float(means);
			g.dx_x = g.scale * load_float(p->invstd + block * BLOCK) * load_float(means + p->s.c);
			propagate(&g, plane * pixels * BLOCK, pixels);
		}
	}
}
