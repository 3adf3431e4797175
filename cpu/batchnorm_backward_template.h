// batchnorm_backward_template.h is a template: batch norm backward, with the sum of two gradients before it and the gradients of
// the rectification and the addition. One pass reduces, the other gives dx; see batchnorm_template.h. Where y is not given, x tells
// which gradients pass a rectification, by forward's own arithmetic. With xhat = (x - mean) * invstd, over m values a
// channel:
//
//   dbeta = sum(g)   dgamma = sum(g * xhat)   dx = gamma * invstd * (g - dbeta / m - xhat * dgamma / m)

// What the gradient of a channel block is made of.
typedef struct {
	const float *x;
	const stored *dy, *dy2, *y; // dy2 and y may be NULL: nothing to add, no y to look at
	stored *keep, *dx;          // keep may be NULL: g is not stored
	int by_x;                   // g is zero where the affine map of x is not over 0
	vec mean, scale, shift;     // the affine map
	vec dx_mean, dx_x;          // dx = scale * g - dx_mean - (x - mean) * dx_x
} gradient;

// g and x - mean of a group.
INLINE void gradient_group(const gradient *p, size_t at, const int group, vec *g, vec *d) {
	for (int k = 0; k < group; k++) {
		g[k] = load(p->dy + at + k * BLOCK);
		d[k] = load_float(p->x + at + k * BLOCK) - p->mean;
	}
	if (p->dy2)
		for (int k = 0; k < group; k++) g[k] += load(p->dy2 + at + k * BLOCK);
	if (p->y)
		for (int k = 0; k < group; k++) g[k] = keep(~(load(p->y + at + k * BLOCK) <= 0), g[k]);
	else if (p->by_x)
		for (int k = 0; k < group; k++) g[k] = keep(~(d[k] * p->scale + p->shift <= 0), g[k]);
}

INLINE void reduce_group(const gradient *p, size_t at, const int group, vec *sum, vec *dot) {
	vec g[GROUP], d[GROUP];
	gradient_group(p, at, group, g, d);
	for (int k = 0; k < group; k++) {
		sum[k] += g[k];
		dot[k] += g[k] * d[k];
	}
	if (p->keep)
		for (int k = 0; k < group; k++) store(p->keep + at + k * BLOCK, g[k]);
}

// Sums g and g * (x - mean) over a chunk.
static void reduce(const gradient *p, size_t at, size_t pixels, float *partial) {
	vec sum[GROUP] = {}, dot[GROUP] = {};
	size_t i = 0;
	for (; i + GROUP <= pixels; i += GROUP) reduce_group(p, at + i * BLOCK, GROUP, sum, dot);
	for (; i < pixels; i++) reduce_group(p, at + i * BLOCK, 1, sum, dot);
	store_float(partial, (sum[0] + sum[1]) + (sum[2] + sum[3]));
	store_float(partial + BLOCK, (dot[0] + dot[1]) + (dot[2] + dot[3]));
}

INLINE void propagate_group(const gradient *p, size_t at, const int group) {
	vec g[GROUP], d[GROUP];
	gradient_group(p, at, group, g, d);
	for (int k = 0; k < group; k++) store(p->dx + at + k * BLOCK, p->scale * g[k] - (d[k] * p->dx_x + p->dx_mean));
}

static void propagate(const gradient *p, size_t at, size_t pixels) {
	size_t i = 0;
	for (; i + GROUP <= pixels; i += GROUP) propagate_group(p, at + i * BLOCK, GROUP);
	for (; i < pixels; i++) propagate_group(p, at + i * BLOCK, 1);
}

// The gradients of gamma and beta of a channel block, from the sums over all images of g and g * (x - mean).
static void finish(const gt_batchnorm *p, int block, const float *partial) {
	double sum[BLOCK], dot[BLOCK];
	total(p->s, block, partial, sum, dot);
	for (int k = 0; k < BLOCK; k++) {
		int c = block * BLOCK + k;
		p->dbeta[c] = (float)sum[k];
		p->dgamma[c] = (float)(dot[k] * p->invstd[c]);
	}
}

static gradient gradient_of(const gt_batchnorm *p, int block) {
	gradient g = {.x = p->x, .dy = p->dy[0], .dy2 = p->dy[1], .keep = p->daddend, .dx = p->dx};
	if (p->relu) g.y = p->y;
	g.by_x = p->relu && !p->y;
	g.mean = load_float(p->mean + block * BLOCK);
	g.scale = load_float(p->gamma + block * BLOCK) * load_float(p->invstd + block * BLOCK);
	g.shift = load_float(p->beta + block * BLOCK);
	return g;
}

static void bn_backward(const gt_batchnorm *p) {
	gt_shape s = p->s;
	size_t pixels = (size_t)s.h * s.w, chunks = chunks_of(s);
	int blocks = s.c / BLOCK;
	if (!s.n || !pixels) { // an empty share adds nothing
		memset(p->dgamma, 0, s.c * sizeof(float));
		memset(p->dbeta, 0, s.c * sizeof(float));
		return;
	}
	float count = (float)((double)s.n * pixels);
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
		for (int block = 0; block < blocks; block++) finish(p, block, p->scratch);
		for (size_t plane = r.to; plane-- > r.from;) {
			int block = (int)(plane % blocks);
			gradient g = gradient_of(p, block);
			if (g.keep) { // g is there
				g.dy = g.keep;
				g.dy2 = g.y = NULL;
				g.by_x = 0;
			}
			g.dx_mean = g.scale * (load_float(p->dbeta + block * BLOCK) / count);
			g.dx_x = g.scale * load_float(p->invstd + block * BLOCK) * (load_float(p->dgamma + block * BLOCK) / count);
			propagate(&g, plane * pixels * BLOCK, pixels);
		}
	}
}
