// quantizer_template.h is a template: the quantizer in terms of an instruction set's vectors. The file that includes it sets
// the compiler's target, defines ISA and includes the vectors.
//
// A column is read twice, for its scale and for its codes, and lies in the first cache the second time: v is computed anew
// rather than stored. What is to agree with the definition must not be fused: cgo compiles it as standard C (-std=c11), which
// fuses nothing.

#include <stddef.h>

#include "quantizer.h"

#define JOIN_OF(name, isa) name##_##isa
#define JOIN(name, isa) JOIN_OF(name, isa)
#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

enum { PARTIALS = 256, P = PARTIALS / W }; // partial sums of a column, and their vectors

INLINE int least_int(int a, int b) { return a < b ? a : b; }

INLINE int finite(float v) {
	uint32_t b;
	memcpy(&b, &v, 4);
	return (b & 0x7f800000) != 0x7f800000;
}

INLINE float mean(float sum, int n) { return n ? sum / (float)n : 0; }

INLINE int piece(const gt_message *m, gt_column c) {
	if (c.dense) return 4 * c.rows;
	int words = 4 * (int)(((int64_t)c.rows * m->bits + 31) / 32);
	return words + (m->bits == 1 ? 8 : m->bits < 16 ? 4 : 0);
}

// Folds the partial sums of two kinds of a column, of which the first `used` vectors are set.
INLINE void total(V *a, V *b, int used, float *sum_a, float *sum_b) {
	for (int n = P / 2; n > 0; n /= 2) {
		for (int j = 0; j < least_int(n, used - n); j++) {
			a[j] = add(a[j], a[j + n]);
			b[j] = add(b[j], b[j + n]);
		}
		used = least_int(used, n);
	}
	fold(a[0], b[0], sum_a, sum_b);
}

enum { SUM, MAGNITUDE, SIDES }; // what is summed: v, |v|, v by the side of the threshold that it lies on

INLINE void sum_vector(int what, const float *g, const float *r, int n, V threshold, V *a, V *b, uint8_t *bits, int *above) {
	V v = add(load(g, n), load(r, n));
	if (what == SIDES) {
		M m = at_least(v, threshold);
		*above += put_truths(bits, m, n);
		*a = add_if(*a, m, v); // values past the column's end are 0, and change neither sum
		*b = add_unless(*b, m, v);
	} else {
		*a = add(*a, what == MAGNITUDE ? magnitude(v) : v);
	}
}

// Sums a column into sum[0], and by sides into sum[0] (not below the threshold) and sum[1]; then it writes the bits too, and
// returns how many are set. One group of partial sums after the other stays in registers.
INLINE int sum(int what, const float *g, const float *r, int rows, float threshold, uint8_t *bits, float sums[2]) {
	V a[P], b[P], t = all(threshold);
	int above = 0, used = least_int(P, (rows + W - 1) / W);
	if (!used) a[0] = b[0] = all(0);
	for (int at = 0; at < used; at += GROUP) {
		V pa[GROUP], pb[GROUP];
#pragma GCC unroll 8
		for (int j = 0; j < GROUP; j++) pa[j] = pb[j] = all(0);
		int i = at * W;
		for (; i + GROUP * W <= rows; i += PARTIALS) {
#pragma GCC unroll 8
			for (int j = 0; j < GROUP; j++) {
				sum_vector(what, g + i + j * W, r + i + j * W, W, t, &pa[j], &pb[j], bits + (i + j * W) / 8, &above);
			}
		}
#pragma GCC unroll 8
		for (int j = 0; j < GROUP; j++) {
			if (i + j * W < rows) {
				int n = least_int(W, rows - i - j * W);
				sum_vector(what, g + i + j * W, r + i + j * W, n, t, &pa[j], &pb[j], bits + (i + j * W) / 8, &above);
			}
		}
#pragma GCC unroll 8
		for (int j = 0; j < GROUP; j++) a[at + j] = pa[j], b[at + j] = pb[j];
	}
	total(a, b, used, &sums[0], &sums[1]);
	return above;
}

INLINE int encode_floats(const float *g, const float *r, float *next, int rows, uint8_t *wire) {
	I most = all_bits(0);
	for (int i = 0, n; i < rows; i += n) {
		n = least_int(W, rows - i);
		V v = load(g + i, n);
		if (r) {
			v = add(v, load(r + i, n));
			store(next + i, all(0), n);
		}
		most = most_int(most, and_bits(bits_of(v), all_bits(0x7fffffff)));
		store((float *)(wire + 4 * i), v, n);
	}
	return !any_above(most, 0x7f7fffff);
}

INLINE void clear_last_word(uint8_t *wire, int bytes) {
	if (bytes) memset(wire + bytes - 4, 0, 4);
}

INLINE void put_some_codes(uint8_t *wire, I codes, int bits, int n) {
	if (n == W) {
		put_codes(wire, codes, bits);
	} else {
		uint8_t all[W * 2];
		put_codes(all, keep(codes, n), bits);
		memcpy(wire, all, (n * bits + 7) / 8);
	}
}

INLINE I get_some_codes(const uint8_t *wire, int bits, int n) {
	if (n == W) return get_codes(wire, bits);
	uint8_t all[W * 2] = {0};
	memcpy(all, wire, (n * bits + 7) / 8);
	return get_codes(all, bits);
}

INLINE void bfloat16_vector(const float *g, const float *r, float *next, uint8_t *wire, int n, I *most) {
	V v = add(load(g, n), load(r, n));
	I b = bits_of(v);
	*most = most_int(*most, and_bits(b, all_bits(0x7fffffff)));
	I odd = and_bits(shift_down(b, 16), all_bits(1));
	I code = shift_down(add_int(add_int(b, all_bits(0x7fff)), odd), 16);
	put_some_codes(wire, code, 16, n);
	store(next, sub(v, of_bits(shift_up(code, 16))), n);
}

INLINE int encode_bfloat16(const float *g, const float *r, float *next, int rows, uint8_t *wire, int bytes) {
	I most = all_bits(0);
	int i = 0;
	clear_last_word(wire, bytes);
	for (; i + W <= rows; i += W) bfloat16_vector(g + i, r + i, next + i, wire + 2 * i, W, &most);
	if (i < rows) bfloat16_vector(g + i, r + i, next + i, wire + 2 * i, rows - i, &most);
	return !any_above(most, 0x7f7f7fff); // what is above rounds to infinity
}

INLINE void side_vector(const float *g, const float *r, float *next, int n, V threshold, V below, V above) {
	V v = add(load(g, n), load(r, n));
	store(next, sub(v, choose(at_least(v, threshold), above, below)), n);
}

INLINE int encode_sides(const float *g, const float *r, float *next, int rows, uint8_t *wire, int bytes, int zero_threshold) {
	float threshold = 0, sums[2];
	if (!zero_threshold) {
		sum(SUM, g, r, rows, 0, NULL, sums);
		threshold = mean(sums[0], rows);
	}
	clear_last_word(wire, bytes);
	int above = sum(SIDES, g, r, rows, threshold, wire + 8, sums);
	float means[2] = {mean(sums[1], rows - above), mean(sums[0], above)};
	memcpy(wire, means, 8);
	V t = all(threshold), m0 = all(means[0]), m1 = all(means[1]);
	int i = 0;
	for (; i + W <= rows; i += W) side_vector(g + i, r + i, next + i, W, t, m0, m1);
	if (i < rows) side_vector(g + i, r + i, next + i, rows - i, t, m0, m1);
	return finite(threshold) && finite(means[0]) && finite(means[1]);
}

INLINE void level_vector(const float *g, const float *r, float *next, uint8_t *wire, int bits, int n, V step, V inverse) {
	const float half = 1 << (bits - 1);
	V v = add(load(g, n), load(r, n));
	V q = most(all(-half), least(all(half - 1), down(mul(v, inverse))));
	I codes = to_int(add(q, all(half)));
	put_some_codes(wire, codes, bits, n);
	store(next, sub(v, mul(add(q, all(0.5f)), step)), n);
}

INLINE int encode_levels(const float *g, const float *r, float *next, int rows, uint8_t *wire, int bytes, int bits, float scale) {
	float sums[2];
	sum(MAGNITUDE, g, r, rows, 0, NULL, sums);
	float step = mean(sums[0], rows) * scale, inverse = 0;
	if (step < 0x1p-126f) step = 0;
	else inverse = 1 / step;
	clear_last_word(wire, bytes);
	memcpy(wire, &step, 4);
	wire += 4;
	V s = all(step), inv = all(inverse);
	int i = 0;
	for (; i + W <= rows; i += W) level_vector(g + i, r + i, next + i, wire + i * bits / 8, bits, W, s, inv);
	if (i < rows) level_vector(g + i, r + i, next + i, wire + i * bits / 8, bits, rows - i, s, inv);
	return finite((float)((1 << bits) - 1) / 2 * step);
}

// The loop over columns, for one format: bits is a constant wherever this is inlined.
INLINE int64_t encode_columns(const gt_message *m, const float *gradient, const float *residual, float *next, int bits) {
	uint8_t *wire = m->wire;
	for (int64_t i = 0; i < m->columns; i++) {
		gt_column c = m->column[i];
		int bytes = piece(m, c), ok;
		const float *g = gradient + c.offset, *r = residual + c.offset;
		float *x = next + c.offset;
		if (c.dense || !residual) ok = encode_floats(g, NULL, NULL, c.rows, wire);
		else if (bits == 32) ok = encode_floats(g, r, x, c.rows, wire);
		else if (bits == 16) ok = encode_bfloat16(g, r, x, c.rows, wire, bytes);
		else if (bits == 1) ok = encode_sides(g, r, x, c.rows, wire, bytes, m->zero_threshold);
		else ok = encode_levels(g, r, x, c.rows, wire, bytes, bits, m->step);
		if (!ok) return i;
		wire += bytes;
	}
	return -1;
}

static int64_t encode(const gt_message *m, const float *gradient, const float *residual, float *next) {
	switch (m->bits) {
	case 1: return encode_columns(m, gradient, residual, next, 1);
	case 2: return encode_columns(m, gradient, residual, next, 2);
	case 4: return encode_columns(m, gradient, residual, next, 4);
	case 8: return encode_columns(m, gradient, residual, next, 8);
	case 16: return encode_columns(m, gradient, residual, next, 16);
	}
	return encode_columns(m, gradient, residual, next, 32);
}

// What the scale on the wire says: the two means, or the step.
typedef struct { V below, above, step; } gt_scale;

INLINE void decode_vector(float *values, const uint8_t *wire, int bits, int n, gt_scale s, int adds) {
	V v;
	if (bits == 32) v = load((const float *)wire, n);
	else if (bits == 16) v = of_bits(shift_up(get_some_codes(wire, 16, n), 16));
	else if (bits == 1) v = choose(get_truths(wire), s.above, s.below);
	else v = mul(sub(to_float(get_some_codes(wire, bits, n)), all((float)((1 << bits) - 1) / 2)), s.step);
	if (adds) v = add(v, load(values, n));
	store(values, v, n);
}

INLINE void decode_column(float *values, const uint8_t *wire, int rows, int bits, int adds) {
	gt_scale s = {all(0), all(0), all(0)};
	float scale[2] = {0, 0};
	if (bits == 1) {
		memcpy(scale, wire, 8);
		s.below = all(scale[0]), s.above = all(scale[1]);
		wire += 8;
	} else if (bits < 16) {
		memcpy(scale, wire, 4);
		s.step = all(scale[0]);
		wire += 4;
	}
	int i = 0;
	for (; i + W <= rows; i += W) decode_vector(values + i, wire + (int64_t)i * bits / 8, bits, W, s, adds);
	if (i < rows) decode_vector(values + i, wire + (int64_t)i * bits / 8, bits, rows - i, s, adds);
}

INLINE void decode_columns(const gt_message *m, float *values, int bits, int adds) {
	const uint8_t *wire = m->wire;
	for (int64_t i = 0; i < m->columns; i++) {
		gt_column c = m->column[i];
		if (c.dense) decode_column(values + c.offset, wire, c.rows, 32, adds);
		else decode_column(values + c.offset, wire, c.rows, bits, adds);
		wire += piece(m, c);
	}
}

INLINE void decode_or_add(const gt_message *m, float *values, int adds) {
	switch (m->bits) {
	case 1: decode_columns(m, values, 1, adds); break;
	case 2: decode_columns(m, values, 2, adds); break;
	case 4: decode_columns(m, values, 4, adds); break;
	case 8: decode_columns(m, values, 8, adds); break;
	case 16: decode_columns(m, values, 16, adds); break;
	default: decode_columns(m, values, 32, adds);
	}
}

static void decode(const gt_message *m, float *values) { decode_or_add(m, values, 0); }
static void decode_add(const gt_message *m, float *values) { decode_or_add(m, values, 1); }

const gt_quantizer JOIN(gt_quantizer, ISA) = {STRING(ISA), encode, decode, decode_add};
