// conv_pack.cu: turns the float32 weights [k][c][tap] of all convolutions of a network into what their products read, in one
// launch: [padded k][tap][padded c] for the forward pass and [padded c][tap][padded k] for the backward pass by data, with zeros in
// the padding, in the storage of the math. Read and written once a step each, out of L2: 12 or 8 bytes a weight.
#include "gemm.h"

struct Layer {
	const float *weight;
	char *packed; // both operands, one behind the other
	int k, c, taps, first; // first: the block that this layer begins with
};

constexpr int perBlock = 1024; // values of one operand

INLINE void put(char *packed, int i, float v, bool half) {
	if (half) store((bf16 *)packed + i, v);
	else store((float *)packed + i, v);
}

template <int MATH> INLINE void pack_weights(const Layer *layers, int count) {
	int low = 0, high = count; // the last layer that begins at this block or before it
	while (high - low > 1) {
		int middle = (low + high) / 2;
		if (layers[middle].first <= BLOCK) low = middle;
		else high = middle;
	}
	const Layer layer = layers[low];
	const int k = (layer.k + 7) & ~7, c = (layer.c + 7) & ~7, size = k * c * layer.taps;
	for (int j = THREAD; j < perBlock; j += 256) {
		int i = (BLOCK - layer.first) * perBlock + j;
		if (i >= 2 * size) break;
		bool back = i >= size;
		int at = back ? i - size : i, inner = back ? k : c, column = at % inner, tap = at / inner % layer.taps, row = at / inner / layer.taps;
		int out = back ? column : row, in = back ? row : column;
		float v = out < layer.k && in < layer.c ? layer.weight[((i64)out * layer.c + in) * layer.taps + tap] : 0;
		if (MATH == TF32) v = float_of(to_tf32(bits_of(v)));
		put(layer.packed, i, v, MATH == BF16);
	}
}

KERNEL(256) conv_pack_f32(const Layer *layers, int count) { pack_weights<FFMA>(layers, count); }
KERNEL(256) conv_pack_tf32(const Layer *layers, int count) { pack_weights<TF32>(layers, count); }
KERNEL(256) conv_pack_bf16(const Layer *layers, int count) { pack_weights<BF16>(layers, count); }
