// norm.cu has batch norm (Ioffe and Szegedy 2015), with the addition and the rectification that are fused into it.
//
// Each direction is two launches: one reduces over images and pixels, one maps. Blocks have a tile of channels, four to a thread, and
// go through a chunk of the rows (a row is a pixel of an image), four loads in flight. A block's sums are float32, of at most 2^15 rows
// or so, and go to scratch memory; the last block of a tile adds them up in float64.
#include "gt.h"

struct shape {
	i64 rows;     // images times pixels
	int channels; // without padding
	int wide;     // threads of a block along channels; 256/wide go along rows
	int chunk;    // rows of a block in the reduction
	int group;    // rows of a block in the map
};

// Where a thread stands.
struct place {
	int padded, c; // channels in memory; the first of the thread's four
	int x, y, high; // its place in the block, and rows of the block
	bool active;
};

INLINE place place_of(const shape &s) {
	place p;
	p.padded = (s.channels + 7) / 8 * 8;
	p.high = 256 / s.wide;
	p.x = THREAD % s.wide;
	p.y = THREAD / s.wide;
	p.c = (BLOCK_Y * s.wide + p.x) * 4;
	p.active = p.y < p.high && p.c < p.padded;
	return p;
}

// A channel's value, 0 in the padding.
INLINE float4 channels_of(const float *p, int c, int channels) {
	if (c + 4 <= channels) return load4(p + c);
	float4 v = {0, 0, 0, 0};
	for (int k = 0; k < 4; k++)
		if (c + k < channels) v[k] = p[c + k];
	return v;
}

// Adds up a block's two sums over its rows and leaves them in scratch[chunk][2][padded].
INLINE void reduce(const place &p, int wide, float4 first, float4 second, float *scratch) {
	__shared__ float4 sums[2][256];
	sums[0][THREAD] = first;
	sums[1][THREAD] = second;
	int rows = p.high;
	while (rows > 1) { // halving, where rows need not be a power of two
		SYNC();
		int half = (rows + 1) / 2;
		if (p.y + half < rows) {
			sums[0][THREAD] += sums[0][THREAD + half * wide];
			sums[1][THREAD] += sums[1][THREAD + half * wide];
		}
		rows = half;
	}
	if (p.y == 0 && p.active) {
		float *to = scratch + (i64)BLOCK * 2 * p.padded + p.c;
		store4(to, sums[0][THREAD]);
		store4(to + p.padded, sums[1][THREAD]);
	}
}

// In the last block of a tile: adds up what all chunks have left for a channel, and calls done(channel, first, second).
template <typename F> INLINE void total(const shape &s, const place &p, const float *scratch, F done) {
	__shared__ double sums[2][256];
	int width = min(s.wide * 4, p.padded - BLOCK_Y * s.wide * 4), parts = 256 / width;
	int part = THREAD / width, c = BLOCK_Y * s.wide * 4 + THREAD % width;
	double first = 0, second = 0;
	if (part < parts) {
		for (int i = part; i < BLOCKS; i += parts) {
			const float *from = scratch + (i64)i * 2 * p.padded + c;
			first += from[0];
			second += from[p.padded];
		}
	}
	sums[0][THREAD] = first;
	sums[1][THREAD] = second;
	SYNC();
	if (part == 0 && c < s.channels) {
		for (int i = 1; i < parts; i++) {
			first += sums[0][i * width + THREAD];
			second += sums[1][i * width + THREAD];
		}
		done(c, first, second);
	}
}

// The first half of forward: sums of x - pivot and of its square, where the pivot is the channel's first value, so that a mean that is
// large beside the deviation does no harm.
KERNEL(256) norm_moments(const float *x, float *scratch, u32 *tickets, float *mean, float *invstd, float *running_mean, float *running_var,
	double *share, double epsilon, double update, shape s) {
	place p = place_of(s);
	float4 pivot = {0, 0, 0, 0}, sum = {0, 0, 0, 0}, square = {0, 0, 0, 0};
	if (p.active) {
		pivot = load4(x + p.c);
		i64 end = (i64)(BLOCK + 1) * s.chunk;
		if (end > s.rows) end = s.rows;
		i64 row = (i64)BLOCK * s.chunk + p.y;
		for (; row + 3 * p.high < end; row += 4 * p.high) {
			float4 v[4];
			for (int k = 0; k < 4; k++) v[k] = load4(x + (row + k * p.high) * p.padded + p.c);
			for (int k = 0; k < 4; k++) {
				float4 d = v[k] - pivot;
				sum += d;
				square += d * d;
			}
		}
		for (; row < end; row += p.high) {
			float4 d = load4(x + row * p.padded + p.c) - pivot;
			sum += d;
			square += d * d;
		}
	}
	reduce(p, s.wide, sum, square, scratch);
	if (!last(tickets + BLOCK_Y, BLOCKS)) return;
	total(s, p, scratch, [&](int c, double first, double second) {
		double count = (double)s.rows, shift = first / count, average = (double)x[c] + shift, squares = second - first * shift;
		if (squares < 0) squares = 0;
		if (share) { // see graph.Share
			if (c == 0) share[0] = count;
			share[1 + c] = average;
			share[1 + s.channels + c] = squares;
			return;
		}
		mean[c] = (float)average;
		invstd[c] = (float)(1 / __nvvm_sqrt_rn_d(squares / count + epsilon));
		running_mean[c] = (float)((1 - update) * running_mean[c] + update * average);
		running_var[c] = (float)((1 - update) * running_var[c] + update * (squares / (count > 2 ? count - 1 : 1)));
	});
}

// gamma and beta with mean and deviation, as y = (x - mean) * scale + beta.
struct affine {
	float4 mean, scale, beta;
};

INLINE float4 map(const affine &a, float4 x) {
	float4 y;
	for (int k = 0; k < 4; k++) y[k] = __builtin_fmaf(x[k] - a.mean[k], a.scale[k], a.beta[k]);
	return y;
}

// Calls row(index of the thread's four channels) for each of its rows, four at a time.
template <int AT_ONCE, typename F> INLINE void rows_of(const shape &s, const place &p, F visit) {
	i64 row = (i64)BLOCK * s.group + p.y, end = (i64)(BLOCK + 1) * s.group;
	if (end > s.rows) end = s.rows;
	for (; row + (AT_ONCE - 1) * p.high < end; row += AT_ONCE * p.high) visit.template operator()<AT_ONCE>(row * p.padded + p.c);
	for (; row < end; row += p.high) visit.template operator()<1>(row * p.padded + p.c);
}

// The second half: y = relu?((x - mean) * scale + beta + addend?). Of the padding everything is 0.
template <typename T, typename X> INLINE void apply(const X *x, const affine &a, const T *addend, T *y, bool relu, const shape &s, const place &p) {
	rows_of<4>(s, p, [&]<int N>(i64 at) {
		float4 v[N], e[N];
		for (int k = 0; k < N; k++) v[k] = load4(x + at + (i64)k * p.high * p.padded);
		if (addend)
			for (int k = 0; k < N; k++) e[k] = load4(addend + at + (i64)k * p.high * p.padded);
		for (int k = 0; k < N; k++) {
			float4 r = map(a, v[k]);
			if (addend) r += e[k];
			if (relu)
				for (int j = 0; j < 4; j++) r[j] = rectify(r[j]);
			store4(y + at + (i64)k * p.high * p.padded, r);
		}
	});
}

template <typename T>
INLINE void norm_apply(const float *x, const float *gamma, const float *beta, const float *mean, const float *invstd, const T *addend, T *y,
	int relu, const shape &s) {
	place p = place_of(s);
	if (!p.active) return;
	affine a = {channels_of(mean, p.c, s.channels), channels_of(gamma, p.c, s.channels) * channels_of(invstd, p.c, s.channels),
		channels_of(beta, p.c, s.channels)};
	apply(x, a, addend, y, relu, s, p);
}

KERNEL(256) norm_apply_f32(const float *x, const float *gamma, const float *beta, const float *mean, const float *invstd, const float *addend,
	float *y, int relu, shape s) {
	norm_apply(x, gamma, beta, mean, invstd, addend, y, relu, s);
}
KERNEL(256) norm_apply_bf16(const float *x, const float *gamma, const float *beta, const float *mean, const float *invstd, const bf16 *addend,
	bf16 *y, int relu, shape s) {
	norm_apply(x, gamma, beta, mean, invstd, addend, y, relu, s);
}

// Inference: the same with the running statistics.
template <typename T>
INLINE void norm_inference(const float *x, const float *gamma, const float *beta, const float *mean, const float *variance, const T *addend, T *y,
	float epsilon, int relu, const shape &s) {
	place p = place_of(s);
	if (!p.active) return;
	affine a = {channels_of(mean, p.c, s.channels), channels_of(gamma, p.c, s.channels), channels_of(beta, p.c, s.channels)};
	float4 v = channels_of(variance, p.c, s.channels);
	for (int k = 0; k < 4; k++) a.scale[k] = a.scale[k] / __nvvm_sqrt_rn_f(v[k] + epsilon);
	apply(x, a, addend, y, relu, s, p);
}

KERNEL(256) norm_inference_f32(const float *x, const float *gamma, const float *beta, const float *mean, const float *variance,
	const float *addend, float *y, float epsilon, int relu, shape s) {
	norm_inference(x, gamma, beta, mean, variance, addend, y, epsilon, relu, s);
}
KERNEL(256) norm_inference_bf16(const float *x, const float *gamma, const float *beta, const float *mean, const float *variance,
	const bf16 *addend, bf16 *y, float epsilon, int relu, shape s) {
	norm_inference(x, gamma, beta, mean, variance, addend, y, epsilon, relu, s);
}

// What the gradient of a batch norm's result is made of: g = dy + dy2?, zero where the rectified output is not positive. Which that is
// says y, or without it x by forward's own arithmetic.
template <typename T> struct gradient {
	const float *x;
	const T *y, *dy, *dy2;
	affine a;
	bool relu;
};

template <typename T, int N> INLINE void load_gradient(const gradient<T> &q, i64 at, i64 stride, float4 *g, float4 *d) {
	float4 second[N], out[N];
	for (int k = 0; k < N; k++) {
		g[k] = load4(q.dy + at + k * stride);
		d[k] = load4(q.x + at + k * stride);
	}
	if (q.dy2)
		for (int k = 0; k < N; k++) second[k] = load4(q.dy2 + at + k * stride);
	if (q.y)
		for (int k = 0; k < N; k++) out[k] = load4(q.y + at + k * stride);
	for (int k = 0; k < N; k++) {
		if (q.dy2) g[k] += second[k];
		if (q.relu) {
			if (!q.y) out[k] = map(q.a, d[k]);
			for (int j = 0; j < 4; j++) g[k][j] = out[k][j] <= 0 ? 0 : g[k][j];
		}
		d[k] -= q.a.mean;
	}
}

// The first half of backward: sums of g and of g * (x - mean), and g itself where an addition wants it. coefficients are what the second
// half needs of them: dbeta/m, and dgamma/m * invstd.
template <typename T>
INLINE void norm_backward_sums(gradient<T> q, const float *gamma, const float *beta, const float *mean, const float *invstd, T *keep,
	float *scratch, u32 *tickets, float *dgamma, float *dbeta, float *coefficients, double *share, const shape &s) {
	place p = place_of(s);
	float4 sum = {0, 0, 0, 0}, dot = {0, 0, 0, 0};
	if (p.active) {
		q.a = {channels_of(mean, p.c, s.channels), channels_of(gamma, p.c, s.channels) * channels_of(invstd, p.c, s.channels),
			channels_of(beta, p.c, s.channels)};
		i64 end = (i64)(BLOCK + 1) * s.chunk, stride = (i64)p.high * p.padded;
		if (end > s.rows) end = s.rows;
		auto visit = [&]<int N>(i64 at) {
			float4 g[N], d[N];
			load_gradient<T, N>(q, at, stride, g, d);
			for (int k = 0; k < N; k++) {
				sum += g[k];
				dot += g[k] * d[k];
				if (keep) store4(keep + at + k * stride, g[k]);
			}
		};
		i64 row = (i64)BLOCK * s.chunk + p.y;
		for (; row + p.high < end; row += 2 * p.high) visit.template operator()<2>(row * p.padded + p.c);
		for (; row < end; row += p.high) visit.template operator()<1>(row * p.padded + p.c);
	}
	reduce(p, s.wide, sum, dot, scratch);
	if (!last(tickets + BLOCK_Y, BLOCKS)) return;
	total(s, p, scratch, [&](int c, double first, double second) {
		second *= invstd[c];
		dbeta[c] = (float)first;
		dgamma[c] = (float)second;
		if (share) {
			if (c == 0) share[0] = (double)s.rows;
			share[1 + c] = first;
			share[1 + s.channels + c] = second;
			return;
		}
		coefficients[c] = (float)(first / (double)s.rows);
		coefficients[s.channels + c] = (float)(second / (double)s.rows * invstd[c]);
	});
}

KERNEL(256) norm_backward_sums_f32(const float *x, const float *y, const float *dy, const float *dy2, const float *gamma, const float *beta,
	const float *mean, const float *invstd, float *keep, float *scratch, u32 *tickets, float *dgamma, float *dbeta, float *coefficients,
	double *share, int relu, shape s) {
	norm_backward_sums<float>({x, y, dy, dy2, {}, relu != 0}, gamma, beta, mean, invstd, keep, scratch, tickets, dgamma, dbeta, coefficients, share, s);
}
KERNEL(256) norm_backward_sums_bf16(const float *x, const bf16 *y, const bf16 *dy, const bf16 *dy2, const float *gamma, const float *beta,
	const float *mean, const float *invstd, bf16 *keep, float *scratch, u32 *tickets, float *dgamma, float *dbeta, float *coefficients,
	double *share, int relu, shape s) {
	norm_backward_sums<bf16>({x, y, dy, dy2, {}, relu != 0}, gamma, beta, mean, invstd, keep, scratch, tickets, dgamma, dbeta, coefficients, share, s);
}

// The second half: dx = gamma * invstd * (g - dbeta/m - (x - mean) * invstd * dgamma/m). Where g has been kept, dy is it.
template <typename T>
INLINE void norm_backward_data(gradient<T> q, const float *gamma, const float *beta, const float *mean, const float *invstd,
	const float *coefficients, T *dx, const shape &s) {
	place p = place_of(s);
	if (!p.active) return;
	q.a = {channels_of(mean, p.c, s.channels), channels_of(gamma, p.c, s.channels) * channels_of(invstd, p.c, s.channels),
		channels_of(beta, p.c, s.channels)};
	float4 shift = channels_of(coefficients, p.c, s.channels), slope = {0, 0, 0, 0};
	for (int k = 0; k < 4; k++)
		if (p.c + k < s.channels) slope[k] = coefficients[s.channels + p.c + k];
	i64 stride = (i64)p.high * p.padded;
	rows_of<2>(s, p, [&]<int N>(i64 at) {
		float4 g[N], d[N];
		load_gradient<T, N>(q, at, stride, g, d);
		for (int k = 0; k < N; k++) store4(dx + at + k * stride, q.a.scale * (g[k] - shift - d[k] * slope));
	});
}

KERNEL(256) norm_backward_data_f32(const float *x, const float *y, const float *dy, const float *dy2, const float *gamma, const float *beta,
	const float *mean, const float *invstd, const float *coefficients, float *dx, int relu, shape s) {
	norm_backward_data<float>({x, y, dy, dy2, {}, relu != 0}, gamma, beta, mean, invstd, coefficients, dx, s);
}
KERNEL(256) norm_backward_data_bf16(const float *x, const bf16 *y, const bf16 *dy, const bf16 *dy2, const float *gamma, const float *beta,
	const float *mean, const float *invstd, const float *coefficients, bf16 *dx, int relu, shape s) {
	norm_backward_data<bf16>({x, y, dy, dy2, {}, relu != 0}, gamma, beta, mean, invstd, coefficients, dx, s);
}

// What a synchronized batch norm makes of the shares [workers][1 + 2 channels] of all workers: see graph.Share.Moments and
// graph.UpdateRunning. A thread has a channel. time is Attr.TimeConstant, in images of so many pixels.
KERNEL(256) norm_merge_moments(const double *shares, int workers, int channels, float *mean, float *invstd, float *running_mean,
	float *running_var, double epsilon, double update) {
	int c = BLOCK * 256 + THREAD;
	if (c >= channels) return;
	double count = 0, average = 0, squares = 0;
	for (int r = 0; r < workers; r++) {
		const double *s = shares + (i64)r * (1 + 2 * channels);
		if (s[0] == 0) continue;
		double both = count + s[0], apart = s[1 + c] - average;
		average += apart * (s[0] / both);
		squares += s[1 + channels + c] + apart * apart * (count * s[0] / both);
		count = both;
	}
	if (count == 0) return;
	mean[c] = (float)average;
	invstd[c] = (float)(1 / __nvvm_sqrt_rn_d(squares / count + epsilon));
	running_mean[c] = (float)((1 - update) * running_mean[c] + update * average);
	running_var[c] = (float)((1 - update) * running_var[c] + update * (squares / (count > 2 ? count - 1 : 1)));
}

KERNEL(256) norm_merge_sums(const double *shares, int workers, int channels, const float *invstd, float *coefficients) {
	int c = BLOCK * 256 + THREAD;
	if (c >= channels) return;
	double count = 0, first = 0, second = 0;
	for (int r = 0; r < workers; r++) {
		const double *s = shares + (i64)r * (1 + 2 * channels);
		count += s[0];
		first += s[1 + c];
		second += s[1 + channels + c];
	}
	if (count == 0) count = 1;
	coefficients[c] = (float)(first / count);
	coefficients[channels + c] = (float)(second / count * invstd[c]);
}
