// quantizer_template.h is a template: the quantizer in terms of an instruction set's vectors. The file that includes it sets
// the compiler's target, defines ISA and includes the vectors.
//
// A column is read twice, for its scale and for its codes, and lies in the first cache the second time: v is computed anew
// rather than stored. What limits short columns and few bits is arithmetic, not memory. What is to agree with the definition must not be fused: cgo compiles it as standard C (-std=c11), which
// fuses nothing.

#include <stddef.h>

#include "quantizer.h"

#define JOIN_OF(name, isa) name##_##isa
#define JOIN(name, isa) JOIN_OF(name, isa)
#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

enum { PARTIALS = 256, GROUP = 4, STRIDE = GROUP * W, GROUPS = PARTIALS / STRIDE }; // a column's partial sums, a group's, the groups

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

// Columns are read in batches, all of a batch for their scales and then all for their codes: a single short column would
// spend most of its time waiting for its sums.
enum { BATCH = 16, BATCH_VALUES = 2048 }; // columns, and their values, which stay in the first cache

// A call that touches more values than caches hold writes residuals that it does not read past them: a plain store would first
// read what it replaces.
enum { STREAM_VALUES = 1 << 22 };

INLINE int streams(const gt_message *m, const float *residual, const float *next) {
	int64_t values = 0;
	for (int64_t i = 0; i < m->columns; i++) values += m->column[i].rows;
	return next != residual && values >= STREAM_VALUES;
}

INLINE int aligned(const float *p) { return (uintptr_t)p % sizeof(V) == 0; }

INLINE void store_or_stream(float *p, V v, int n, int past) {
	if (past && n >= W) stream(p, v);
	else store(p, v, n);
}

enum { SUM, MAGNITUDE, SIDES }; // what is summed: v, |v|, v by the side of the threshold that it lies on

// Partial sums, those of a group for each of two kinds: of v or |v| in a; by sides, of the values not below the threshold in a
// and of the others in b.
typedef struct { V a[GROUP], b[GROUP]; } gt_partials;

// Adds n values, at most a group. Returns a bit for each value that is not below the threshold. Values past the n-th are 0,
// and change no sum.
INLINE uint64_t sum_values(int what, const float *g, const float *r, int n, V threshold, gt_partials *p) {
	M m[GROUP] = {0};
#pragma GCC unroll 4
	for (int j = 0; j < GROUP; j++) {
		int left = n == STRIDE ? W : n - j * W;
		if (left <= 0) break;
		V v = add(load(g + j * W, left), load(r + j * W, left));
		if (what == SIDES) {
			m[j] = at_least(v, threshold);
			p->a[j] = add_if(p->a[j], m[j], v);
			p->b[j] = add_unless(p->b[j], m[j], v);
		} else {
			p->a[j] = add(p->a[j], what == MAGNITUDE ? magnitude(v) : v);
		}
	}
	if (what != SIDES) return 0;
	return n == STRIDE ? truths(m) : truths(m) & (((uint64_t)1 << n) - 1);
}

// What is summed, and where the bits go.
typedef struct {
	const float *g, *r;
	int rows;
	V threshold;
	uint8_t *wire;
	int above; // bits set
} gt_sum;

// Sums group k of the partial sums, in registers: values [k STRIDE, (k+1) STRIDE) of every 256.
INLINE gt_partials group_sums(int what, gt_sum *s, int k) {
	gt_partials p;
#pragma GCC unroll 4
	for (int j = 0; j < GROUP; j++) p.a[j] = p.b[j] = all(0);
	int i = k * STRIDE;
	for (; i + STRIDE <= s->rows; i += PARTIALS) {
		uint64_t bits = sum_values(what, s->g + i, s->r + i, STRIDE, s->threshold, &p);
		if (what == SIDES) {
			memcpy(s->wire + i / 8, &bits, STRIDE / 8);
			s->above += _mm_popcnt_u64(bits);
		}
	}
	if (i < s->rows) {
		uint64_t bits = sum_values(what, s->g + i, s->r + i, s->rows - i, s->threshold, &p);
		if (what == SIDES) {
			memcpy(s->wire + i / 8, &bits, 4);
			if (s->rows - i > 32) memcpy(s->wire + i / 8 + 4, (uint8_t *)&bits + 4, 4);
			s->above += _mm_popcnt_u64(bits);
		}
	}
	return p;
}

INLINE gt_partials add_partials(int what, gt_partials p, gt_partials q) {
#pragma GCC unroll 4
	for (int j = 0; j < GROUP; j++) {
		p.a[j] = add(p.a[j], q.a[j]);
		if (what == SIDES) p.b[j] = add(p.b[j], q.b[j]);
	}
	return p;
}

// The tree's first levels, over groups.
INLINE gt_partials half_sums(int what, gt_sum *s, int k) {
	gt_partials p = group_sums(what, s, k);
	return k + GROUPS / 2 < (s->rows + STRIDE - 1) / STRIDE ? add_partials(what, p, group_sums(what, s, k + GROUPS / 2)) : p;
}

INLINE gt_partials quarter_sums(int what, gt_sum *s, int k) {
	return add_partials(what, half_sums(what, s, k), half_sums(what, s, k + GROUPS / 4));
}

// Sums a column into sum[0], and by sides into sum[0] (not below the threshold) and sum[1]; then it writes the bits too, and
// returns how many are set.
INLINE int sum(int what, const float *g, const float *r, int rows, float threshold, uint8_t *wire, float sums[2]) {
	gt_sum s = {g, r, rows, all(threshold), wire, 0};
	gt_partials p = quarter_sums(what, &s, 0);
	if (GROUPS == 8) p = add_partials(what, p, quarter_sums(what, &s, 1));
	V a = add(add(p.a[0], p.a[2]), add(p.a[1], p.a[3])), b = add(add(p.b[0], p.b[2]), add(p.b[1], p.b[3]));
	fold(a, b, sums);
	return s.above;
}

static __attribute__((noinline)) void sum_plain(const float *g, const float *r, int rows, float sums[2]) {
	sum(SUM, g, r, rows, 0, NULL, sums);
}

INLINE void sum_magnitudes(const float *g, const float *r, int rows, float sums[2]) {
	sum(MAGNITUDE, g, r, rows, 0, NULL, sums);
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

INLINE void bfloat16_vector(const float *g, const float *r, float *next, uint8_t *wire, int n, I *most) {
	V v = add(load(g, n), load(r, n));
	I b = bits_of(v);
	*most = most_int(*most, and_bits(b, all_bits(0x7fffffff)));
	I odd = and_bits(shift_down(b, 16), all_bits(1));
	I code = shift_down(add_int(add_int(b, all_bits(0x7fff)), odd), 16);
	if (n == W) {
		put_halves(wire, code);
	} else {
		uint8_t some[W * 2];
		put_halves(some, code);
		memcpy(wire, some, n * 2);
	}
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

INLINE void side_vector(const float *g, const float *r, float *next, int n, V threshold, V below, V above, int past) {
	V v = add(load(g, n), load(r, n));
	store_or_stream(next, sub(v, choose(at_least(v, threshold), above, below)), n, past);
}

// What a column is quantized with, between its first reading and its second.
typedef struct {
	float sums[2];   // of the first reading
	int above;       // 1 bit: values not below the threshold
	float threshold; // 1 bit
	float low, high; // 1 bit: the means below the threshold and above; otherwise the step and its inverse
} gt_fit;

// The first reading of a column for 1 bit writes the bits too.
INLINE void sum_sides(const float *g, const float *r, int rows, uint8_t *wire, int zero_threshold, gt_fit *f) {
	f->threshold = 0;
	if (!zero_threshold) {
		sum_plain(g, r, rows, f->sums);
		f->threshold = mean(f->sums[0], rows);
	}
	f->above = sum(SIDES, g, r, rows, f->threshold, wire + 8, f->sums);
}

INLINE int fit_sides(int rows, uint8_t *wire, gt_fit *f) {
	float means[2] = {mean(f->sums[1], rows - f->above), mean(f->sums[0], f->above)};
	memcpy(wire, means, 8);
	f->low = means[0], f->high = means[1];
	return finite(f->threshold) && finite(f->low) && finite(f->high);
}

INLINE void encode_sides(const float *g, const float *r, float *next, int rows, const gt_fit *f, int past) {
	V t = all(f->threshold), m0 = all(f->low), m1 = all(f->high);
	int i = 0;
	for (; i + W <= rows; i += W) side_vector(g + i, r + i, next + i, W, t, m0, m1, past);
	if (i < rows) side_vector(g + i, r + i, next + i, rows - i, t, m0, m1, past);
}

// Quantizes n values, at most a group.
INLINE void level_values(const float *g, const float *r, float *next, uint8_t *wire, int bits, int n, V inverse, gt_levels t,
	int past) {
	const int half = 1 << (bits - 1);
	I q[GROUP];
#pragma GCC unroll 4
	for (int j = 0; j < GROUP; j++) {
		int left = n == STRIDE ? W : n - j * W;
		q[j] = all_bits(-half); // the code 0
		if (left <= 0) continue;
		V v = add(load(g + j * W, left), load(r + j * W, left));
		I k = to_int_down(clip(mul(v, inverse), half));
		q[j] = left < W ? keep(k, left, -half) : k;
		store_or_stream(next + j * W, sub(v, level(k, t, bits)), left, past);
	}
	put_words(wire, pack(q, bits), (n * bits + 31) / 32);
}

INLINE int fit_levels(int rows, uint8_t *wire, int bits, float scale, gt_fit *f) {
	float step = mean(f->sums[0], rows) * scale;
	if (step < 0x1p-125f) step = 0;
	f->low = step, f->high = step > 0 ? 1 / step : 0;
	memcpy(wire, &step, 4);
	return finite((float)((1 << bits) - 1) / 2 * step);
}

// Prefetches a group's values into the first cache. The address may be any.
INLINE void prefetch(const float *p) {
#pragma GCC unroll 4
	for (int k = 0; k < STRIDE; k += 16) __builtin_prefetch(p + k);
}

INLINE void encode_levels(const float *g, const float *r, float *next, int rows, uint8_t *wire, int bits, const gt_fit *f,
	int past) {
	V inverse = all(f->high);
	gt_levels t = levels(f->low, bits);
	int i = 0;
	for (; i + STRIDE <= rows; i += STRIDE) {
		prefetch(g + i + BATCH_VALUES); // the next batch: this one keeps the arithmetic busy and leaves the memory idle
		prefetch(r + i + BATCH_VALUES);
		level_values(g + i, r + i, next + i, wire, bits, STRIDE, inverse, t, past);
		wire += STRIDE * bits / 8;
	}
	if (i < rows) level_values(g + i, r + i, next + i, wire, bits, rows - i, inverse, t, past);
}

// The loop over columns, for one format: bits is a constant wherever this is inlined.
INLINE int64_t encode_columns(const gt_message *m, const float *gradient, const float *residual, float *next, int bits) {
	uint8_t *wire = m->wire;
	int past = bits < 16 && streams(m, residual, next);
	for (int64_t from = 0, to; from < m->columns; from = to) {
		gt_fit fit[BATCH];
		uint8_t *first = wire;
		int values = 0;
		for (to = from; to < m->columns && to < from + BATCH; to++) {
			gt_column c = m->column[to];
			if (values > 0 && values + (int64_t)c.rows > BATCH_VALUES) break;
			values += c.rows;
			const float *g = gradient + c.offset, *r = residual + c.offset;
			int bytes = piece(m, c);
			if (c.dense || bits >= 16) {
			} else if (bits == 1) {
				sum_sides(g, r, c.rows, wire, m->zero_threshold, &fit[to - from]);
			} else {
				sum_magnitudes(g, r, c.rows, fit[to - from].sums);
			}
			wire += bytes;
		}
		wire = first;
		for (int64_t i = from; i < to; i++) {
			gt_column c = m->column[i];
			const float *g = gradient + c.offset, *r = residual + c.offset;
			float *x = next + c.offset;
			gt_fit *f = &fit[i - from];
			int bytes = piece(m, c), ok;
			if (c.dense || !residual) {
				ok = encode_floats(g, NULL, NULL, c.rows, wire);
			} else if (bits == 32) {
				ok = encode_floats(g, r, x, c.rows, wire);
			} else if (bits == 16) {
				ok = encode_bfloat16(g, r, x, c.rows, wire, bytes);
			} else if (bits == 1) {
				ok = fit_sides(c.rows, wire, f);
				encode_sides(g, r, x, c.rows, f, past && aligned(x));
			} else {
				ok = fit_levels(c.rows, wire, bits, m->step, f);
				encode_levels(g, r, x, c.rows, wire + 4, bits, f, past && aligned(x));
			}
			if (!ok) return i;
			wire += bytes;
		}
	}
	if (past) _mm_sfence(); // other threads may read now
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

INLINE I get_some_codes(const uint8_t *wire, int bits, int n) {
	if (n == W) return get_codes(wire, bits);
	uint8_t some[W * 2] = {0};
	memcpy(some, wire, (n * bits + 7) / 8);
	return get_codes(some, bits);
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
