// loss.c has the softmax cross-entropy and its gradient.

#include <math.h>

#include "kernels.h"

// The index of the largest value, the first of equals; -1 where a value is NaN.
static int largest(const float *x, int n) {
	int best = 0;
	for (int i = 0; i < n; i++) {
		if (isnan(x[i])) return -1;
		if (x[i] > x[best]) best = i;
	}
	return best;
}

void gt_softmax_xent(const float *logits, const int32_t *labels, const float *weight, int n, int classes, float divisor,
	double *loss, double *errors, float *dlogits) {
	*loss = *errors = 0;
	for (int i = 0; i < n; i++, logits += classes) {
		float *d = dlogits ? dlogits + (size_t)i * classes : NULL;
		if (weight[i] == 0) { // whatever its logits are
			for (int c = 0; d && c < classes; c++) d[c] = 0;
			continue;
		}
		int best = largest(logits, classes), label = labels[i];
		float top = best < 0 ? NAN : logits[best];
		double sum = 0;
		for (int c = 0; c < classes; c++) sum += expf(logits[c] - top);
		*loss += weight[i] * (log(sum) - ((double)logits[label] - top));
		*errors += weight[i] * (best != label);
		for (int c = 0; d && c < classes; c++)
			d[c] = (float)(weight[i] * (expf(logits[c] - top) / sum - (c == label)) / divisor);
	}
}
