// elementwise.cu has the operations that stand alone in a plan without fusion. Each reads and writes every value once, 16 bytes a
// thread and load: memory bounds them.
#include "gt.h"

// Values of 16 bytes.
template <typename T> constexpr int vector = 16 / sizeof(T);

template <typename T> struct values { float v[vector<T>]; };

INLINE values<float> load_vector(const float *p) {
	float4 f = *(const float4 *)p;
	return {f.x, f.y, f.z, f.w};
}
INLINE values<bf16> load_vector(const bf16 *p) {
	words4 w = *(const words4 *)p;
	return {low_of(w.x), high_of(w.x), low_of(w.y), high_of(w.y), low_of(w.z), high_of(w.z), low_of(w.w), high_of(w.w)};
}
INLINE void store_vector(float *p, values<float> a) { *(float4 *)p = (float4){a.v[0], a.v[1], a.v[2], a.v[3]}; }
INLINE void store_vector(bf16 *p, values<bf16> a) {
	*(words4 *)p = (words4){pack(a.v[0], a.v[1]), pack(a.v[2], a.v[3]), pack(a.v[4], a.v[5]), pack(a.v[6], a.v[7])};
}

INLINE i64 place() { return (i64)BLOCK * 256 + THREAD; }

template <typename T> INLINE void relu(const T *x, T *y, i64 vectors) {
	i64 i = place();
	if (i >= vectors) return;
	values<T> a = load_vector(x + i * vector<T>);
	for (float &v : a.v) v = rectify(v);
	store_vector(y + i * vector<T>, a);
}

template <typename T> INLINE void relu_backward(const T *y, const T *dy, T *dx, i64 vectors) {
	i64 i = place();
	if (i >= vectors) return;
	values<T> a = load_vector(y + i * vector<T>), g = load_vector(dy + i * vector<T>);
	for (int k = 0; k < vector<T>; k++) g.v[k] = a.v[k] <= 0 ? 0 : g.v[k];
	store_vector(dx + i * vector<T>, g);
}

template <typename T> INLINE void add(const T *a, const T *b, T *y, i64 vectors) {
	i64 i = place();
	if (i >= vectors) return;
	values<T> p = load_vector(a + i * vector<T>), q = load_vector(b + i * vector<T>);
	for (int k = 0; k < vector<T>; k++) p.v[k] += q.v[k];
	store_vector(y + i * vector<T>, p);
}

KERNEL(256) relu_f32(const float *x, float *y, i64 vectors) { relu(x, y, vectors); }
KERNEL(256) relu_bf16(const bf16 *x, bf16 *y, i64 vectors) { relu(x, y, vectors); }
KERNEL(256) relu_backward_f32(const float *y, const float *dy, float *dx, i64 vectors) { relu_backward(y, dy, dx, vectors); }
KERNEL(256) relu_backward_bf16(const bf16 *y, const bf16 *dy, bf16 *dx, i64 vectors) { relu_backward(y, dy, dx, vectors); }
KERNEL(256) add_f32(const float *a, const float *b, float *y, i64 vectors) { add(a, b, y, vectors); }
KERNEL(256) add_bf16(const bf16 *a, const bf16 *b, bf16 *y, i64 vectors) { add(a, b, y, vectors); }
