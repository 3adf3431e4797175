// quantizer.h declares the vectorized quantizer. Package quantizer's Go code says what it computes, and agrees to the bit.
#ifndef GOTRAIN_QUANTIZER_H
#define GOTRAIN_QUANTIZER_H

#include <stdint.h>

// A run of values that share one scale: Column in Go.
typedef struct {
	int32_t offset, rows;
	uint8_t dense;
} gt_column;

// A table of columns and its wire form.
typedef struct {
	int bits;
	int zero_threshold;
	float step;       // 2, 4, 8 bits: the step over the mean of |v|
	int64_t columns;
	const gt_column *column;
	uint8_t *wire;
} gt_message;

// The functions of one instruction set.
typedef struct {
	const char *isa;
	// Returns the first column with a value or sum that is not finite, or -1. Residual may be NULL with 32 bits.
	int64_t (*encode)(const gt_message *m, const float *gradient, const float *residual, float *next);
	void (*decode)(const gt_message *m, float *values);
	void (*add)(const gt_message *m, float *values);
} gt_quantizer;

// gt_quantizer_for gives the functions of a set that the machine supports, by number from 0, the best first. NULL: there are
// no more.
const gt_quantizer *gt_quantizer_for(int number);

// Call the functions, for Go.
int64_t gt_quantizer_encode(const gt_quantizer *q, int bits, int zero_threshold, float step, int64_t columns,
	const void *column, const float *gradient, const float *residual, float *next, uint8_t *wire);
void gt_quantizer_decode(const gt_quantizer *q, int bits, int64_t columns, const void *column, const uint8_t *wire,
	float *values, int add);

// gt_quantizer_copy is memcpy, the measure of the benchmarks.
void gt_quantizer_copy(void *to, const void *from, int64_t bytes);

#endif
