// update.cu has the update rules over the whole arena, and the norm that clipping needs.
#include "gt.h"
#include "result.h"

// The sum of squares of an arena of n values, a multiple of 4, in float64: a thread's, a block's by halves, and then the blocks' in order.
// It is not finite where a value is not.
KERNEL(256) sum_squares(const float *x, i64 n, double *scratch, u32 *ticket, result *r) {
	__shared__ double sums[256];
	double sum = 0;
	i64 i = ((i64)BLOCK * 256 + THREAD) * 4, step = (i64)BLOCKS * 1024;
	for (; i + step < n; i += 2 * step) {
		float4 a = load4(x + i), b = load4(x + i + step);
		for (int k = 0; k < 4; k++) sum += (double)a[k] * a[k];
		for (int k = 0; k < 4; k++) sum += (double)b[k] * b[k];
	}
	if (i < n) {
		float4 a = load4(x + i);
		for (int k = 0; k < 4; k++) sum += (double)a[k] * a[k];
	}
	sums[THREAD] = sum;
	for (int half = 128; half; half /= 2) {
		SYNC();
		if (THREAD < half) sums[THREAD] += sums[THREAD + half];
	}
	if (THREAD == 0) scratch[BLOCK] = sums[0];
	if (!last(ticket, BLOCKS)) return;
	if (THREAD == 0) {
		double all = 0;
		for (int k = 0; k < BLOCKS; k++) all += scratch[k];
		r->squares = all;
	}
}

// As UpdateParams has it, see update.go.
struct update {
	int rule; // see graph.Rule
	int nesterov;
	float rate, momentum, gain, l2, clip;
	float beta1, beta2, epsilon;
	float unbias1, unbias2; // Adam: 1/(1-beta^step)
};

enum { SGD, MOMENTUM, ADAM };

template <int RULE> INLINE void update_arena(const update &u, float scale, float *w, const float *g, float *m, float *v, i64 n) {
	for (i64 i = ((i64)BLOCK * 256 + THREAD) * 4; i < n; i += (i64)BLOCKS * 1024) {
		float4 p = load4(w + i), d = (load4(g + i) * scale + p * u.l2) * u.gain, step = d;
		if (RULE == MOMENTUM) {
			float4 a = load4(m + i) * u.momentum + d;
			store4(m + i, a);
			step = u.nesterov ? d + a * u.momentum : a;
		}
		if (RULE == ADAM) {
			float4 a = load4(m + i) * u.beta1 + d * (1 - u.beta1), b = load4(v + i) * u.beta2 + d * d * (1 - u.beta2);
			store4(m + i, a);
			store4(v + i, b);
			for (int k = 0; k < 4; k++) step[k] = a[k] * u.unbias1 / (__nvvm_sqrt_rn_f(b[k] * u.unbias2) + u.epsilon);
		}
		store4(w + i, p - step * u.rate);
	}
}

// Updates n parameters, a multiple of 4, or none where the loss or the norm is not finite.
KERNEL(256) update_parameters(const update *parameters, result *r, float *w, const float *g, float *m, float *v, i64 n) {
	__shared__ float factor;
	update u = *parameters;
	double squares = r->squares;
	bool take = finite(squares) && finite(r->loss);
	if (THREAD == 0) {
		double norm = __nvvm_sqrt_rn_d(squares);
		factor = u.clip > 0 && norm > u.clip ? (float)(u.clip / norm) : 1.0f; // see graph.Update.Scale
		if (BLOCK == 0) r->updated = take;
	}
	SYNC();
	if (!take) return;
	if (u.rule == SGD) update_arena<SGD>(u, factor, w, g, m, v, n);
	else if (u.rule == MOMENTUM) update_arena<MOMENTUM>(u, factor, w, g, m, v, n);
	else update_arena<ADAM>(u, factor, w, g, m, v, n);
}
