// update.c has the update rules over ranges of the arenas, and the norm that clipping needs. See learners for the rules.

#include <math.h>

#include "kernels.h"

void gt_sgd_update(const gt_sgd *p) {
	float *w = p->w, *m = p->m;
	const float *g = p->g;
	const float rate = p->rate, momentum = p->momentum, gain = p->gain, l2 = p->l2, scale = p->scale;
	if (!m) {
#pragma omp parallel for simd num_threads(p->threads) schedule(static)
		for (size_t i = 0; i < p->n; i++) w[i] -= rate * ((g[i] * scale + l2 * w[i]) * gain);
	} else if (!p->nesterov) {
#pragma omp parallel for simd num_threads(p->threads) schedule(static)
		for (size_t i = 0; i < p->n; i++) {
			m[i] = momentum * m[i] + (g[i] * scale + l2 * w[i]) * gain;
			w[i] -= rate * m[i];
		}
	} else {
#pragma omp parallel for simd num_threads(p->threads) schedule(static)
		for (size_t i = 0; i < p->n; i++) {
			float d = (g[i] * scale + l2 * w[i]) * gain;
			m[i] = momentum * m[i] + d;
			w[i] -= rate * (d + momentum * m[i]);
		}
	}
}

void gt_adam_update(const gt_adam *p) {
	float *w = p->w, *m = p->m, *v = p->v;
	const float *g = p->g;
	const float beta1 = p->beta1, beta2 = p->beta2, epsilon = p->epsilon, gain = p->gain, l2 = p->l2, scale = p->scale;
	const float rate = p->rate, unbias1 = 1 / p->bias1, unbias2 = 1 / p->bias2;
#pragma omp parallel for simd num_threads(p->threads) schedule(static)
	for (size_t i = 0; i < p->n; i++) {
		float d = (g[i] * scale + l2 * w[i]) * gain;
		m[i] = beta1 * m[i] + (1 - beta1) * d;
		v[i] = beta2 * v[i] + (1 - beta2) * d * d;
		w[i] -= rate * (m[i] * unbias1) / (sqrtf(v[i] * unbias2) + epsilon);
	}
}

// Parts and lanes are fixed, so that the order of the sum is, whatever the number of threads.
double gt_sum_squares(const float *x, size_t n, int threads) {
	enum { PARTS = 64, LANES = 8 };
	double sums[PARTS];
#pragma omp parallel for num_threads(threads) schedule(static)
	for (int part = 0; part < PARTS; part++) {
		size_t i = n / PARTS * part, end = part == PARTS - 1 ? n : n / PARTS * (part + 1);
		double lanes[LANES] = {0};
		for (; i + LANES <= end; i += LANES)
			for (int k = 0; k < LANES; k++) lanes[k] += (double)x[i + k] * x[i + k];
		for (; i < end; i++) lanes[0] += (double)x[i] * x[i];
		sums[part] = 0;
		for (int k = 0; k < LANES; k++) sums[part] += lanes[k];
	}
	double sum = 0;
	for (int part = 0; part < PARTS; part++) sum += sums[part];
	return sum;
}
