// loss.cu has the softmax cross-entropy with its gradient, and what a step ends with: the result.
#include "gt.h"
#include "result.h"

// e^x for x <= 0, within 1 ulp: x = k log 2 + r, and a polynomial in r with the coefficients of Cephes' expf. 0 below -104.
INLINE float exp_negative(float x) {
	if (x < -104.0f) return 0;
	float k = __builtin_rintf(x * 1.44269504f), r = __builtin_fmaf(k, -0.693359375f, x);
	r = __builtin_fmaf(k, 2.12194440e-4f, r);
	float p = 1.9875691500e-4f;
	p = __builtin_fmaf(p, r, 1.3981999507e-3f);
	p = __builtin_fmaf(p, r, 8.3334519073e-3f);
	p = __builtin_fmaf(p, r, 4.1665795894e-2f);
	p = __builtin_fmaf(p, r, 1.6666665459e-1f);
	p = __builtin_fmaf(p, r, 5.0000001201e-1f);
	p = __builtin_fmaf(p, r * r, r) + 1.0f;
	int e = (int)k, half = e / 2; // in two steps, so that a result below the normal numbers is rounded once
	return p * float_of((u32)(half + 127) << 23) * float_of((u32)(e - half + 127) << 23);
}

// log x for normal x >= 1: x = 2^e m with m within sqrt 2 of 1, and log m = 2 artanh((m-1)/(m+1)), whose series ends here at 2e-17.
INLINE double log_above(double x) {
	u64 b = __builtin_bit_cast(u64, x);
	int e = (int)(b >> 52) - 1023;
	double m = __builtin_bit_cast(double, (b & 0xfffffffffffffull) | 0x3ff0000000000000ull);
	if (m > 1.4142135623730951) {
		m *= 0.5;
		e++;
	}
	double f = (m - 1) / (m + 1), s = f * f, p = 1.0 / 21;
	for (int k = 19; k >= 1; k -= 2) p = p * s + 1.0 / k;
	return e * 0.6931471805599453 + 2 * f * p;
}

// A warp has a sample, a block 8. Weighted sums run in float64, in the order of the samples within a block and then of blocks; the last
// block writes them to the result. A sample is right where its label's logit is the first of the largest; one with a NaN is wrong.
KERNEL(256) softmax_cross_entropy(const float *logits, const int *labels, const float *weights, const float *divisor, float *dlogits,
	double *scratch, u32 *ticket, result *r, int n, int classes) {
	__shared__ double sums[3][8];
	int warp = THREAD / 32, sample = BLOCK * 8 + warp;
	double loss = 0, error = 0;
	float weight = sample < n ? weights[sample] : 0.0f;
	if (sample < n) {
		const float *row = logits + (i64)sample * classes;
		float *d = dlogits ? dlogits + (i64)sample * classes : nullptr;
		if (weight == 0) { // whatever its logits are
			for (int c = LANE; d && c < classes; c += 32) d[c] = 0;
		} else {
			float top = -__builtin_inff();
			int best = 0x7fffffff, bad = 0;
			for (int c = LANE; c < classes; c += 32) {
				float v = row[c];
				bad |= v != v;
				if (v > top || best == 0x7fffffff) top = v, best = c;
			}
			for (int step = 16; step; step /= 2) {
				float other = from_xor(top, step);
				int at = from_xor(best, step);
				bad |= from_xor(bad, step);
				if (other > top || (other == top && at < best)) top = other, best = at;
			}
			if (bad) top = float_of(0x7fc00000), best = -1;
			double sum = 0;
			for (int c = LANE; c < classes; c += 32) sum += row[c] == top ? 1.0 : (double)exp_negative(row[c] - top);
			for (int step = 16; step; step /= 2) sum += from_down(sum, step);
			float total = from_lane((float)sum, 0), divide = divisor[0];
			int label = labels[sample];
			for (int c = LANE; d && c < classes; c += 32)
				d[c] = weight * (exp_negative(row[c] - top) / total - (c == label ? 1.0f : 0.0f)) / divide;
			if (LANE == 0) {
				loss = bad ? (double)top : weight * (log_above(sum) - ((double)row[label] - top));
				error = best == label ? 0 : weight;
			}
		}
	}
	if (LANE == 0) {
		sums[0][warp] = loss;
		sums[1][warp] = error;
		sums[2][warp] = weight;
	}
	SYNC();
	if (THREAD < 3) {
		double sum = 0;
		for (int i = 0; i < 8; i++) sum += sums[THREAD][i];
		scratch[BLOCK * 3 + THREAD] = sum;
	}
	if (!last(ticket, BLOCKS)) return;
	if (THREAD < 3) {
		double sum = 0;
		for (int i = 0; i < BLOCKS; i++) sum += scratch[i * 3 + THREAD];
		(&r->loss)[THREAD] = sum;
	}
}

// Metrics of all workers, added in their order.
KERNEL(32) add_results(const result *const *results, int workers, result *r) {
	if (THREAD >= 3) return;
	double sum = 0;
	for (int i = 0; i < workers; i++) sum += (&results[i]->loss)[THREAD];
	(&r->loss)[THREAD] = sum;
}
