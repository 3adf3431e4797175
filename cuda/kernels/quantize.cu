// quantize.cu encodes and decodes gradients, as package quantizer defines it, to the bit: this file is compiled without fused
// multiply-adds. A warp has a column. Lane l has the values i with i mod 32 = l, and of the 256 partial sums of a column those eight with
// p mod 32 = l, so that the halving tree runs in registers down to 32 partial sums, and then from lane to lane. 32 values of a column are
// one word of 1-bit codes: a ballot.
//
// Columns come from a table, longest first, and warps go on to the next one: lengths differ by a factor of a hundred.
#include "gt.h"

// As Column has it, see quantize.go.
struct column {
	int offset, rows; // values in the arenas
	int wire;         // word of the message where its piece begins
	u32 message;      // which of the messages, times 2; 1 more for a column that goes as it is
};

INLINE column column_at(const column *table, int i) {
	words4 w = *(const words4 *)(table + i);
	return {(int)w.x, (int)w.y, (int)w.z, w.w};
}

// Calls body(index of the value, j), where j is the partial sum / 32, for the values of a lane in their order; all 32 lanes call it with
// the same number of values, and inside says which are there. Loads of several at once do not wait for each other; partial sums need all eight.
template <int AT_ONCE = 8, typename L, typename F> INLINE void each(int rows, L load, F body) {
	for (int base = 0; base < rows; base += 32 * AT_ONCE) {
		float v[AT_ONCE];
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++) {
			int i = base + j * 32 + LANE;
			v[j] = i < rows ? load(i) : 0.0f;
		}
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++) {
			if (base + j * 32 >= rows) break; // alike for all lanes
			int i = base + j * 32 + LANE;
			body(i, j, v[j], i < rows);
		}
	}
}

// Eight of a column's partial sums.
struct partials {
	float s[8];
};

// The sum of a column, for all lanes.
INLINE float total(partials p) {
	for (int n = 4; n; n /= 2)
		for (int j = 0; j < n; j++) p.s[j] += p.s[j + n];
	float v = p.s[0];
	for (int d = 16; d; d /= 2) v += from_down(v, d); // lane 0 adds what the tree adds
	return from_lane(v, 0);
}

INLINE float mean(float sum, int n) { return n ? sum / (float)n : 0.0f; }

// What is encoded.
struct source {
	const float *gradient, *residual; // residual may be 0 with 32 bits
	float *next;
	u32 *wire;
	u32 *bad; // the least offset of what is not finite
};

// The offset that a column without finite sums is told by: of its first gradient that is not finite, or its own.
INLINE void report(const source &s, const column &c) {
	int first = 0x7fffffff;
	for (int i = LANE; i < c.rows; i += 32)
		if (!finite(s.gradient[c.offset + i])) {
			first = i;
			break;
		}
	for (int d = 16; d; d /= 2) first = min(first, from_xor(first, d));
	if (LANE == 0) __nvvm_atom_min_gen_ui(s.bad, (u32)(c.offset + (first == 0x7fffffff ? 0 : first)));
}

// A column as it is.
INLINE bool encode_floats(const source &s, const column &c, bool residual) {
	bool ok = true;
	each(c.rows, [&](int i) {
		float v = s.gradient[c.offset + i];
		return residual ? v + s.residual[c.offset + i] : v;
	}, [&](int i, int, float v, bool inside) {
		if (!inside) return;
		s.wire[c.wire + i] = bits_of(v);
		if (residual) s.next[c.offset + i] = 0;
		ok &= finite(v);
	});
	return BALLOT(!ok) == 0;
}

INLINE bool encode_sides(const source &s, const column &c, bool zero_threshold) {
	const float *g = s.gradient + c.offset, *r = s.residual + c.offset;
	float *next = s.next + c.offset, threshold = 0;
	bool ok = true;
	if (!zero_threshold) {
		partials all = {};
		each(c.rows, [&](int i) { return g[i] + r[i]; }, [&](int, int j, float v, bool inside) {
			if (inside) all.s[j] += v;
		});
		threshold = mean(total(all), c.rows);
		ok = finite(threshold);
	}
	partials below = {}, above = {};
	int n = 0;
	each(c.rows, [&](int i) { return g[i] + r[i]; }, [&](int i, int j, float v, bool inside) {
		bool over = inside && v >= threshold;
		u32 bits = BALLOT(over);
		if (LANE == 0) s.wire[c.wire + 2 + i / 32] = bits;
		n += __builtin_popcount(bits);
		if (over) above.s[j] += v;
		else if (inside) below.s[j] += v;
	});
	float low = mean(total(below), c.rows - n), high = mean(total(above), n);
	if (LANE == 0) {
		s.wire[c.wire] = bits_of(low);
		s.wire[c.wire + 1] = bits_of(high);
	}
	each(c.rows, [&](int i) { return g[i] + r[i]; }, [&](int i, int, float v, bool inside) {
		if (inside) next[i] = v - (v >= threshold ? high : low);
	});
	return ok && finite(low) && finite(high);
}

// Joins the codes of a word's lanes: value i has BITS bits, from the low ones.
template <int BITS> INLINE u32 join(u32 code) {
	u32 word = code << (LANE % (32 / BITS) * BITS);
	for (int d = 1; d < 32 / BITS; d *= 2) word |= (u32)from_xor((int)word, d);
	return word;
}

INLINE bool encode_bfloat16(const source &s, const column &c) {
	const float *g = s.gradient + c.offset, *r = s.residual + c.offset;
	float *next = s.next + c.offset;
	bool ok = true;
	each(c.rows, [&](int i) { return g[i] + r[i]; }, [&](int i, int, float v, bool inside) {
		u32 b = bits_of(v), code = (b + 0x7fff + (b >> 16 & 1)) >> 16;
		u32 word = join<16>(inside ? code : 0);
		if (inside && i % 2 == 0) s.wire[c.wire + i / 2] = word;
		if (inside) {
			ok &= (b & 0x7fffffff) < 0x7f7f8000;
			next[i] = v - float_of(code << 16);
		}
	});
	return BALLOT(!ok) == 0;
}

template <int BITS> INLINE bool encode_levels(const source &s, const column &c) {
	const float *g = s.gradient + c.offset, *r = s.residual + c.offset;
	float *next = s.next + c.offset;
	constexpr float half = (1 << BITS) / 2;
	partials absolute = {};
	auto value = [&](int i) { return g[i] + r[i]; };
	each(c.rows, value, [&](int, int j, float v, bool inside) {
		if (inside) absolute.s[j] += __builtin_fabsf(v);
	});
	float step = mean(total(absolute), c.rows) * (float)(1.2533141373155003 * (BITS == 2 ? 0.9957 : BITS == 4 ? 0.3352 : 0.03076)), inverse = 0;
	if (step < 0x1p-125f) step = 0;
	else inverse = 1 / step;
	if (LANE == 0) s.wire[c.wire] = bits_of(step);
	each<4>(c.rows, value, [&](int i, int, float v, bool inside) {
		float q = __builtin_floorf(v * inverse);
		q = q < -half ? -half : q > half - 1 ? half - 1 : q;
		u32 word = join<BITS>(inside ? (u32)(int)(q + half) & ((1 << BITS) - 1) : 0);
		if (inside && i % (32 / BITS) == 0) s.wire[c.wire + 1 + i * BITS / 32] = word;
		if (inside) next[i] = v - (q + 0.5f) * step;
	});
	return finite((half - 0.5f) * step);
}

template <typename F> INLINE void encode(const column *table, int columns, const source &s, F quantize) {
	for (int i = BLOCK * 8 + THREAD / 32; i < columns; i += BLOCKS * 8) {
		column c = column_at(table, i);
		bool ok = c.message & 1 ? encode_floats(s, c, false) : quantize(c);
		if (!ok) report(s, c);
	}
}

#define ENCODER(name, expression) \
	KERNEL(256) name(const column *table, int columns, const float *gradient, const float *residual, float *next, u32 *wire, u32 *bad) { \
		source s = {gradient, residual, next, wire, bad}; \
		encode(table, columns, s, [&](const column &c) { return expression; }); \
	}

ENCODER(encode_1, encode_sides(s, c, true))
ENCODER(encode_1_mean, encode_sides(s, c, false))
ENCODER(encode_2, encode_levels<2>(s, c))
ENCODER(encode_4, encode_levels<4>(s, c))
ENCODER(encode_8, encode_levels<8>(s, c))
ENCODER(encode_16, encode_bfloat16(s, c))
ENCODER(encode_32, encode_floats(s, c, s.residual != nullptr))

// Decodes and adds what so many messages, from that of the column on, have of each column, in their order. decoder(message, c) makes what
// gives a column's value i.
template <typename D> INLINE void decode(const column *table, int columns, const u32 *const *messages, int count, float *values, D decoder) {
	for (int at = BLOCK * 8 + THREAD / 32; at < columns; at += BLOCKS * 8) {
		column c = column_at(table, at);
		for (int base = 0; base < c.rows; base += 256) {
			float sum[8];
			for (int k = 0; k < count; k++) {
				const u32 *wire = messages[(c.message >> 1) + k] + c.wire;
				auto add = [&](auto value) {
#pragma unroll
					for (int j = 0; j < 8; j++) {
						int i = base + j * 32 + LANE;
						float v = i < c.rows ? value(i) : 0.0f;
						sum[j] = k ? v + sum[j] : v;
					}
				};
				if (c.message & 1) add([&](int i) { return float_of(wire[i]); });
				else add(decoder(wire));
			}
#pragma unroll
			for (int j = 0; j < 8; j++) {
				int i = base + j * 32 + LANE;
				if (i < c.rows) values[c.offset + i] = sum[j];
			}
		}
	}
}

template <int BITS> INLINE auto levels(const u32 *wire) {
	float step = float_of(wire[0]);
	return [=](int i) {
		u32 code = wire[1 + i * BITS / 32] >> (i * BITS % 32) & ((1u << BITS) - 1);
		return ((float)code - (float)((1 << BITS) - 1) / 2) * step;
	};
}

INLINE auto sides(const u32 *wire) {
	float low = float_of(wire[0]), high = float_of(wire[1]);
	return [=](int i) { return wire[2 + i / 32] >> (i % 32) & 1 ? high : low; };
}

INLINE auto halves(const u32 *wire) {
	return [=](int i) { return float_of(wire[i / 2] >> (i % 2 * 16) << 16); };
}

INLINE auto floats(const u32 *wire) {
	return [=](int i) { return float_of(wire[i]); };
}

#define DECODER(name, decoder) \
	KERNEL(256) name(const column *table, int columns, const u32 *const *messages, int count, float *values) { \
		decode(table, columns, messages, count, values, [](const u32 *wire) { return decoder(wire); }); \
	}

DECODER(decode_1, sides)
DECODER(decode_2, levels<2>)
DECODER(decode_4, levels<4>)
DECODER(decode_8, levels<8>)
DECODER(decode_16, halves)
DECODER(decode_32, floats)

// Writes the header of a bucket's messages, see package distributed: the metrics as the result begins with them, whether to stop, and the
// offset of what is not finite. A thread has a message; words are where they begin in the buffer.
KERNEL(256) put_headers(const u32 *result, const u32 *stop, const u32 *bad, const int *words, int messages, u32 *wire) {
	int i = BLOCK * 256 + THREAD;
	if (i >= messages) return;
	u32 *to = wire + words[i];
	for (int k = 0; k < 6; k++) to[k] = result[k];
	to[6] = *stop;
	to[7] = *bad;
}
