// winograd.h counts the tiles of Winograd's convolutions, the same for all instruction sets and storage types.
#ifndef GOTRAIN_WINOGRAD_H
#define GOTRAIN_WINOGRAD_H

#include "kernels.h"

// A tile is TALL rows of outputs, and of the inputs around them TALL_IN. It is m = 2 or 4 columns wide, m + 2 with those.
enum { TALL = 4, TALL_IN = TALL + 2, WIDEST = 4, WIDEST_IN = WIDEST + 2 };

// The tiles that cover all images, in the order of images, rows, columns.
typedef struct {
	int m, h, w;
	int rows, columns; // of tiles in an image
	size_t count;
} winograd_tiles;

// One tile: its image, and its row and column of tiles.
typedef struct { int n, y, x; } winograd_tile;

static inline winograd_tiles winograd_tiles_of(gt_shape s, int m) {
	winograd_tiles g = {.m = m, .h = s.h, .w = s.w,
		.rows = (s.h + TALL - 1) / TALL, .columns = (s.w + m - 1) / m};
	g.count = (size_t)s.n * g.rows * g.columns;
	return g;
}

static inline winograd_tile winograd_tile_at(const winograd_tiles *g, size_t i) {
	return (winograd_tile){(int)(i / g->columns / g->rows), (int)(i / g->columns % g->rows), (int)(i % g->columns)};
}

static inline void winograd_tile_next(const winograd_tiles *g, winograd_tile *t) {
	if (++t->x < g->columns) return;
	t->x = 0;
	if (++t->y < g->rows) return;
	t->y = 0;
	t->n++;
}

// How many products of channels a tile takes.
static inline int winograd_positions(int m) { return TALL_IN * (m + 2); }

#endif
