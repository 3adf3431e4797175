// winograd.h counts the tiles of Winograd's convolutions, the same for all instruction sets and storage types.
#ifndef GOTRAIN_WINOGRAD_H
#define GOTRAIN_WINOGRAD_H

#include "kernels.h"

// The tiles of m x m outputs that cover all images, in the order of images, rows, columns, and how a thread takes them:
// `batch` at a time, so that what it holds of them in Winograd's domain stays in its second-level cache.
typedef struct {
	int m, h, w;
	int rows, columns; // of tiles in an image
	size_t count;
	int batch;
	size_t plane;      // floats of a block of channels at one position: batch * block
} winograd_tiles;

// One tile: its image, and its row and column of tiles.
typedef struct { int n, y, x; } winograd_tile;

// channels: what a thread holds of a tile at once. multiple: of the micro kernel.
static inline winograd_tiles winograd_tiles_of(gt_shape s, int m, int block, int channels, int multiple) {
	const size_t cache = 384 << 10; // bytes of a second-level cache, which also serves weights and images
	winograd_tiles g = {.m = m, .h = s.h, .w = s.w, .rows = (s.h + m - 1) / m, .columns = (s.w + m - 1) / m};
	g.count = (size_t)s.n * g.rows * g.columns;
	size_t fit = cache / ((size_t)(m + 2) * (m + 2) * channels * sizeof(float)) / multiple;
	size_t limit = 112 / multiple;
	g.batch = (int)(fit < 1 ? 1 : fit > limit ? limit : fit) * multiple;
	g.plane = (size_t)g.batch * block;
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

// Floats from one position to the next, in scratch of `planes` blocks of channels. An odd number of cache lines, or the
// positions of a tile would compete for few sets of the first-level cache.
static inline size_t winograd_stride(const winograd_tiles *g, int planes) {
	size_t lines = (planes * g->plane + 15) / 16;
	return (lines | 1) * 16;
}

#endif
