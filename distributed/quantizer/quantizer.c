// quantizer.c picks the instruction set.

#include <stddef.h>
#include <string.h>

#include "quantizer.h"

#if defined(__x86_64__)
extern const gt_quantizer gt_quantizer_avx512, gt_quantizer_avx2;
#endif

const gt_quantizer *gt_quantizer_for(int number) {
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2") && number-- == 0) return &gt_quantizer_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && number-- == 0) return &gt_quantizer_avx2;
#endif
	return NULL;
}

int64_t gt_quantizer_encode(const gt_quantizer *q, int bits, int zero_threshold, float step, int64_t columns,
	const void *column, const float *gradient, const float *residual, float *next, uint8_t *wire) {
	gt_message m = {bits, zero_threshold, step, columns, column, wire};
	return q->encode(&m, gradient, residual, next);
}

void gt_quantizer_decode(const gt_quantizer *q, int bits, int64_t columns, const void *column, const uint8_t *wire,
	float *values, int add) {
	gt_message m = {.bits = bits, .columns = columns, .column = column, .wire = (uint8_t *)wire};
	(add ? q->add : q->decode)(&m, values);
}

void gt_quantizer_copy(void *to, const void *from, int64_t bytes) { memcpy(to, from, bytes); }
