// winograd_transform_template.h holds the one-dimensional transforms of Winograd's method F(m, 3) for m = 2 and m = 4, on vectors
// of BLOCK channels or filters (Lavin and Gray, 2016). A tile is transformed down its columns with m = 4 and along its rows
// with m = 2 or 4. It depends on the instruction set only, not on the storage type.
//
//   y = A^T [ (G g G^T) . (B^T d B) ] A        g: 3x3 weights, d: inputs, y: outputs
//   dg = G^T [ (A dy A^T) . (B^T d B) ] G
//
// All are evaluations and interpolations of polynomials at the points 0, the inner points in pairs, and infinity:
// 0, 1, -1, inf for m = 2, and 0, a, -a, b, -b, inf for m = 4. Positions are numbered in that order. The pairs share
// their even and odd parts.
//
// a and b decide the rounding error (Barabasz et al., 2020). Measured on 16 channels, relative to the norm: 1.0e-6 for the
// usual 1 and 2, 0.65e-6 for 1/2 and 2, and around 0.49e-6 in a wide optimum, where 5/8 and 3/2 make all constants of A
// and B exact. A direct sum in float has 0.21e-6; F(2x2) 0.16e-6, F(4x2) 0.28e-6.
#ifndef WINOGRAD_TRANSFORM
#define WINOGRAD_TRANSFORM

static const float winograd_a = 0.625f, winograd_b = 1.5f;

#define UNROLL _Pragma("GCC unroll 32")

// One-dimensional B^T d: at 0, at infinity, and at the inner points of one pair (0: a or 1, 1: b). d has m + 2 values; the
// first is read for the point 0 only, the last for infinity only.
INLINE vec winograd_zero(int m, const vec *d) {
	const float aa = winograd_a * winograd_a, bb = winograd_b * winograd_b;
	return m == 2 ? d[2] - d[0] : d[4] - (aa + bb) * d[2] + aa * bb * d[0];
}

INLINE vec winograd_infinity(int m, const vec *d) {
	const float aa = winograd_a * winograd_a, bb = winograd_b * winograd_b;
	return m == 2 ? d[3] - d[1] : d[5] - (aa + bb) * d[3] + aa * bb * d[1];
}

INLINE void winograd_pair(int m, int pair, const vec *d, vec *v) {
	const float p = pair ? winograd_b : winograd_a, q = pair ? winograd_a : winograd_b;
	// Processors add beside multiplying: so p is multiplied into the odd part, not into each of the two results.
	vec even = m == 2 ? d[2] : d[4] - q * q * d[2], odd = m == 2 ? d[1] : p * d[3] - p * q * q * d[1];
	v[0] = even + odd;
	v[1] = even - odd;
}

// One-dimensional A^T v: outputs 0 and 2, which hang on the even parts, or 1 and 3, on the odd ones.
INLINE void winograd_even(int m, const vec *v, vec *y) {
	const float a = winograd_a, b = winograd_b;
	vec even_a = v[1] + v[2];
	if (m == 2) {
		y[0] = v[0] + even_a;
		return;
	}
	vec even_b = v[3] + v[4];
	y[0] = v[0] + (even_a + even_b);
	y[1] = a * a * even_a + b * b * even_b;
}

INLINE void winograd_odd(int m, const vec *v, vec *y) {
	const float a = winograd_a, b = winograd_b;
	vec odd_a = v[1] - v[2];
	if (m == 2) {
		y[0] = odd_a + v[3];
		return;
	}
	vec odd_b = v[3] - v[4];
	y[0] = a * odd_a + b * odd_b;
	y[1] = a * a * a * odd_a + (b * b * b * odd_b + v[5]);
}

// One-dimensional A dy for m = 4, at the points of one pair. At 0 it is the first value, at infinity the last.
INLINE void winograd_gradient_pair(int pair, const vec *y, vec *v) {
	const float p = pair ? winograd_b : winograd_a;
	vec even = y[0] + p * p * y[2], odd = p * y[1] + p * p * p * y[3];
	v[0] = even + odd;
	v[1] = even - odd;
}

// G: its first m + 1 rows are (1, p, p^2) / product of the differences to the other finite points; the last is (0, 0, 1).
// The constants stand without division, so that they are correctly rounded.
INLINE void winograd_scales(int m, float *zero, float *pair_a, float *pair_b) {
	const double a = winograd_a, b = winograd_b;
	*zero = m == 2 ? -1 : 1 / (a * a * b * b);
	*pair_a = m == 2 ? 0.5 : 1 / (2 * a * a * (a * a - b * b));
	*pair_b = 1 / (2 * b * b * (b * b - a * a));
}

// One-dimensional G g: m + 2 positions of 3 weights.
INLINE void winograd_weight(int m, const vec *g, vec *u) {
	float zero, pair_a, pair_b;
	winograd_scales(m, &zero, &pair_a, &pair_b);
	const float a = m == 2 ? 1 : winograd_a, b = winograd_b;
	u[0] = zero * g[0];
	vec even = pair_a * (g[0] + a * a * g[2]), odd = pair_a * a * g[1];
	u[1] = even + odd;
	u[2] = even - odd;
	if (m == 4) {
		even = pair_b * (g[0] + b * b * g[2]), odd = pair_b * b * g[1];
		u[3] = even + odd;
		u[4] = even - odd;
	}
	u[m + 1] = g[2];
}

// One-dimensional G^T u: 3 weight gradients of m + 2 positions.
INLINE void winograd_weight_gradient(int m, const vec *u, vec *g) {
	float zero, pair_a, pair_b;
	winograd_scales(m, &zero, &pair_a, &pair_b);
	const float a = m == 2 ? 1 : winograd_a, b = winograd_b;
	vec even = pair_a * (u[1] + u[2]), odd = pair_a * (u[1] - u[2]);
	g[0] = zero * u[0] + even;
	g[1] = a * odd;
	g[2] = a * a * even + u[m + 1];
	if (m == 4) {
		even = pair_b * (u[3] + u[4]), odd = pair_b * (u[3] - u[4]);
		g[0] += even;
		g[1] += b * odd;
		g[2] += b * b * even;
	}
}

#endif
