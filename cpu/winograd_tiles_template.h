// winograd_tiles_template.h is a template: tiles of activations into Winograd's domain and back, for one storage type. A tile is
// TALL x m outputs and the TALL_IN x (m + 2) inputs around them; what lies outside of the image is zero, or not written.
//
// Scratch lies as [block of channels][position][tile][BLOCK], plane_of(form) words a position.

// Each function walks its tile in groups of one or two rows of positions, to need few registers at a time; the rows of a
// pair share their even and odd parts.

// Functions that are to keep their registers to themselves: many constant cases inlined into one spill.
#define NOINLINE static __attribute__((noinline))

// B^T d B, d given by its rows without `left` zero columns before and `right` after.
INLINE void transform_input_rows(int form, int m, int left, int right, const stored *const *row, float *v) {
	const int size = m + 2, plane = plane_of(form);
	UNROLL for (int group = 0; group < 4; group++) {
		const int zero = group == 2, infinity = group == 3;
		vec t[2][WIDEST_IN];
		UNROLL for (int c = 0; c < size; c++) {
			vec d[TALL_IN], both[2] = {};
			if (c >= left && c < size - right) {
				const int from = zero ? 0 : 1, to = TALL_IN - !infinity;
				UNROLL for (int r = from; r < to; r++) d[r] = load(row[r] + (c - left) * BLOCK);
				if (zero) both[0] = winograd_zero(TALL, d);
				else if (infinity) both[0] = winograd_infinity(TALL, d);
				else winograd_pair(TALL, group, d, both);
			}
			t[0][c] = both[0];
			t[1][c] = both[1];
		}
		const int rows = zero || infinity ? 1 : 2;
		UNROLL for (int i = 0; i < rows; i++) {
			float *to = v + (zero ? 0 : infinity ? TALL_IN - 1 : 2 * group + 1 + i) * size * plane;
			put(form, to, winograd_zero(m, t[i]));
			UNROLL for (int pair = 0; pair < m / 2; pair++) {
				vec both[2];
				winograd_pair(m, pair, t[i], both);
				put(form, to + (2 * pair + 1) * plane, both[0]);
				put(form, to + (2 * pair + 2) * plane, both[1]);
			}
			put(form, to + (m + 1) * plane, winograd_infinity(m, t[i]));
		}
	}
}

#define INPUT_CASE(form, m, left, right) \
	NOINLINE void transform_input_##form##m##left##right(const stored *const *row, float *v) { \
		transform_input_rows(form, m, left, right, row, v); \
	}
#define INPUT_CASES(form, m) INPUT_CASE(form, m, 0, 0) INPUT_CASE(form, m, 0, 1) INPUT_CASE(form, m, 1, 0) INPUT_CASE(form, m, 1, 1)
#define INPUT_NAMES(form, m) { \
	{transform_input_##form##m##00, transform_input_##form##m##01}, {transform_input_##form##m##10, transform_input_##form##m##11} \
}

#if !BF16
INPUT_CASES(FLOATS, 2)
#endif
INPUT_CASES(FLOATS, 4)
#if PAIRED
INPUT_CASES(CHANNELS, 4)
INPUT_CASES(FIRST, 4)
INPUT_CASES(SECOND, 4)
#endif

// By form and by what is missing, left and right.
typedef void (*input_case)(const stored *const *, float *);
static const input_case input_cases[][2][2] = {
	INPUT_NAMES(FLOATS, 4),
#if PAIRED
	INPUT_NAMES(CHANNELS, 4), INPUT_NAMES(FIRST, 4), INPUT_NAMES(SECOND, 4),
#endif
};
#if !BF16
static const input_case narrow_input_cases[2][2] = INPUT_NAMES(FLOATS, 2);
#else
#define narrow_input_cases input_cases[FLOATS]
#endif

// B^T d B of one tile, all blocks of channels.
INLINE void transform_input(int form, int m, const winograd_tiles *g, winograd_tile t, const stored *x, int blocks, float *v) {
	static const stored zeros[WIDEST_IN * BLOCK];
	const int size = m + 2, top = t.y * TALL - 1, before = t.x * m - 1;
	const int left = before < 0, right = before + size > g->w ? before + size - g->w : 0, copied = right > 1;
	const size_t image = (size_t)g->h * g->w * BLOCK, line = (size_t)g->w * BLOCK;
	const stored *row[TALL_IN];
	x += (size_t)t.n * blocks * image + (before + left) * BLOCK;
	for (int c = 0; c < blocks; c++, v += TALL_IN * size * plane_of(form), x += image) {
		UNROLL for (int r = 0; r < TALL_IN; r++) {
			row[r] = top + r >= 0 && top + r < g->h ? x + (top + r) * line : zeros;
		}
		stored copy[TALL_IN][WIDEST_IN * BLOCK];
		if (copied) {
			memset(copy, 0, sizeof copy);
			for (int r = 0; r < TALL_IN; r++) {
				memcpy(copy[r] + left * BLOCK, row[r], (size - left - right) * BLOCK * sizeof(stored));
				row[r] = copy[r];
			}
		}
		(m == 4 ? input_cases[form] : narrow_input_cases)[copied ? 0 : left][copied ? 0 : right](row, v);
	}
}

// A dy A^T of one tile of 4x4 and one block of filters, of which `rows` and `columns` lie inside the image.
INLINE void transform_gradient_block(int form, const stored *dy, size_t line, float *v, int rows, int columns) {
	enum { M = 4, SIZE = M + 2 };
	const int plane = plane_of(form);
	UNROLL for (int group = 0; group < 4; group++) {
		const int zero = group == 2, infinity = group == 3;
		vec t[2][M];
		UNROLL for (int j = 0; j < M; j++) {
			vec y[M];
			UNROLL for (int i = 0; i < M; i++) {
				if ((zero && i > 0) || (infinity && i < M - 1)) continue;
				y[i] = i < rows && j < columns ? load(dy + i * line + j * BLOCK) : (vec){};
			}
			vec both[2];
			if (zero) both[0] = y[0];
			else if (infinity) both[0] = y[M - 1];
			else winograd_gradient_pair(group, y, both);
			t[0][j] = both[0];
			if (!zero && !infinity) t[1][j] = both[1];
		}
		const int lines = zero || infinity ? 1 : 2;
		UNROLL for (int i = 0; i < lines; i++) {
			float *to = v + (zero ? 0 : infinity ? M + 1 : 2 * group + 1 + i) * SIZE * plane;
			put(form, to, t[i][0]);
			UNROLL for (int pair = 0; pair < 2; pair++) {
				vec both[2];
				winograd_gradient_pair(pair, t[i], both);
				put(form, to + (2 * pair + 1) * plane, both[0]);
				put(form, to + (2 * pair + 2) * plane, both[1]);
			}
			put(form, to + (M + 1) * plane, t[i][M - 1]);
		}
	}
}

#define GRADIENT(form) \
	NOINLINE void transform_gradient_whole_##form(const stored *dy, size_t line, float *v) { \
		transform_gradient_block(form, dy, line, v, 4, 4); \
	} \
	NOINLINE void transform_gradient_edge_##form(const stored *dy, size_t line, float *v, int rows, int columns) { \
		transform_gradient_block(form, dy, line, v, rows, columns); \
	}

#if PAIRED
GRADIENT(FIRST)
GRADIENT(SECOND)
#else
GRADIENT(FLOATS)
#define transform_gradient_whole_FIRST transform_gradient_whole_FLOATS
#define transform_gradient_edge_FIRST transform_gradient_edge_FLOATS
#define transform_gradient_whole_SECOND transform_gradient_whole_FLOATS
#define transform_gradient_edge_SECOND transform_gradient_edge_FLOATS
#endif

// A dy A^T of one tile of 4x4, all blocks of filters.
static void transform_gradient(int form, const winograd_tiles *g, winograd_tile t, const stored *dy, int blocks, float *v) {
	enum { M = 4, SIZE = M + 2 };
	const int rows = g->h - t.y * M, columns = g->w - t.x * M;
	const size_t line = (size_t)g->w * BLOCK, image = g->h * line;
	dy += (size_t)t.n * blocks * image + t.y * M * line + t.x * M * BLOCK;
	for (int c = 0; c < blocks; c++, v += SIZE * SIZE * plane_of(form), dy += image) {
		const int whole = rows >= M && columns >= M;
		if (whole && form == SECOND) transform_gradient_whole_SECOND(dy, line, v);
		else if (whole) transform_gradient_whole_FIRST(dy, line, v);
		else if (form == SECOND) transform_gradient_edge_SECOND(dy, line, v, rows, columns);
		else transform_gradient_edge_FIRST(dy, line, v, rows, columns);
	}
}

// Stores two blocks that lie side by side, where possible in one instruction.
INLINE void store_both(stored *p, vec a, vec b) {
#if BF16 && defined(__AVX512BF16__)
	_mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
#else
	store(p, a);
	store(p + BLOCK, b);
#endif
}

// Two blocks of an output: of floats where `wide` is set, else as stored.
INLINE void store_outputs(int wide, void *y, size_t at, int count, vec a, vec b) {
	if (wide) {
		if (count > 0) store_float((float *)y + at, a);
		if (count > 1) store_float((float *)y + at + BLOCK, b);
	} else if (count > 1) {
		store_both((stored *)y + at, a, b);
	} else if (count > 0) {
		store((stored *)y + at, a);
	}
}

// A^T v A of one block of filters: whole, or what of it lies inside the image. y counts values.
INLINE void transform_output_block(int m, int wide, int whole, const float *v, void *y, size_t at, size_t line, int rows, int columns) {
	const int size = m + 2;
	UNROLL for (int odd = 0; odd < 2; odd++) {
		vec t[2][WIDEST_IN];
		UNROLL for (int j = 0; j < size; j++) {
			vec d[TALL_IN], both[2];
			UNROLL for (int i = odd; i < TALL_IN - 1 + odd; i++) d[i] = load_float(v + (i * size + j) * PLANE);
			if (odd) winograd_odd(TALL, d, both);
			else winograd_even(TALL, d, both);
			UNROLL for (int i = 0; i < TALL / 2; i++) t[i][j] = both[i];
		}
		UNROLL for (int i = 0; i < 2; i++) {
			vec out[2][2];
			winograd_even(m, t[i], out[0]);
			winograd_odd(m, t[i], out[1]);
			const size_t to = at + (2 * i + odd) * line;
			UNROLL for (int j = 0; j < m / 2; j++) {
				if (whole) store_outputs(wide, y, to + 2 * j * BLOCK, 2, out[0][j], out[1][j]);
				else if (2 * i + odd < rows) store_outputs(wide, y, to + 2 * j * BLOCK, columns - 2 * j, out[0][j], out[1][j]);
			}
		}
	}
}

#define OUTPUT(name, m, wide) \
	NOINLINE void transform_output_##name(const float *v, void *y, size_t at, size_t line) { \
		transform_output_block(m, wide, 1, v, y, at, line, TALL, m); \
	} \
	NOINLINE void transform_output_edge_##name(const float *v, void *y, size_t at, size_t line, int rows, int columns) { \
		transform_output_block(m, wide, 0, v, y, at, line, rows, columns); \
	}

OUTPUT(4, 4, 0)
#if BF16
OUTPUT(wide, 4, 1)
#else
OUTPUT(2, 2, 0)
#define transform_output_wide transform_output_2
#define transform_output_edge_wide transform_output_edge_2
#endif

// A^T v A of one tile and `width` blocks of filters, from the block `first` on of `blocks`. `forward` chooses between the
// forms of the two directions: the narrow tiles of float, the wide output of bfloat16.
INLINE void transform_output(int m, int forward, const winograd_tiles *g, winograd_tile t, const float *v, void *y, int first,
	int blocks, int width) {
	const int rows = g->h - t.y * TALL, columns = g->w - t.x * m;
	const size_t line = (size_t)g->w * BLOCK, image = g->h * line;
	size_t at = ((size_t)t.n * blocks + first) * image + t.y * TALL * line + t.x * m * BLOCK;
	for (int c = 0; c < width; c++, v += winograd_positions(m) * PLANE, at += image) {
		const int whole = rows >= TALL && columns >= m;
		if (forward && whole) transform_output_wide(v, y, at, line);
		else if (forward) transform_output_edge_wide(v, y, at, line, rows, columns);
		else if (whole) transform_output_4(v, y, at, line);
		else transform_output_edge_4(v, y, at, line, rows, columns);
	}
}

// Asks for the memory of `blocks` blocks of channels of `all`, for the share of the tiles [from, to) that falls to position
// p of all positions: called between the products of two positions, it hides the memory's latency behind them.
// Values have `bytes` bytes.
INLINE void prefetch_share(int m, const winograd_tiles *g, size_t from, size_t to, int p, const void *x, size_t bytes, int all,
	int blocks) {
	const int positions = winograd_positions(m);
	const size_t line = (size_t)g->w * BLOCK, image = g->h * line;
	for (size_t i = from + (to - from) * p / positions; i < from + (to - from) * (p + 1) / positions; i++) {
		const winograd_tile t = winograd_tile_at(g, i);
		const char *tile = (const char *)x + ((size_t)t.n * all * image + t.y * TALL * line + t.x * m * BLOCK) * bytes;
		for (int c = 0; c < blocks; c++, tile += image * bytes) {
			UNROLL for (int r = 0; r < TALL; r++) {
				if (t.y * TALL + r >= g->h) break;
				UNROLL for (size_t at = 0; at < m * BLOCK * bytes; at += 64) __builtin_prefetch(tile + r * line * bytes + at);
			}
		}
	}
}
