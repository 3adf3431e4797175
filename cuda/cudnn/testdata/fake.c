// A libcudnn.so.9 for tests of the calls into one. It checks the types and the counts of attributes, that all are set that have to
// be, and that descriptors live as long as what was made of them; and it computes convolutions, at once, by the strides of their
// tensors. Its heuristics have engines that are wrong for one reason each. From the environment:
//
//   FAKE_CUDNN_VERSION   what cudnnGetVersion tells; 91002 by default
//   FAKE_CUDNN_FAIL      NAME=CODE makes a function fail, NAME/N=CODE where it concerns descriptor or attribute N
//   FAKE_CUDNN_ENGINES   the engines that mode A lists, a digit each; 01234 by default. The fallback has engine 5
//   FAKE_CUDNN_LOG       the file to which cudnnDestroy appends how many descriptors are left

#define _GNU_SOURCE
#include "../api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD_PARAM = 2000, NOT_FINALIZED = 2004, EXECUTION_FAILED = 5000, ALIVE = 0x600d };

struct cudnnContext { cudaStream_t stream; int device; };

// What an attribute is to be.
static const struct rule { int descriptor, attribute, type; int64_t count; } rules[] = {
	{17, 906, 3, 1}, {17, 901, 1, 1}, {17, 900, 3, 1}, {17, 902, 3, 4}, {17, 903, 3, 4},
	{1, 100, 1, 1}, {1, 101, 7, 1}, {1, 106, 3, 1}, {1, 102, 3, 2}, {1, 103, 3, 2}, {1, 104, 3, 2}, {1, 105, 3, 2},
	{10, 700, 4, 1}, {10, 701, 4, 1}, {10, 702, 15, 1}, {10, 703, 15, 1}, {10, 704, 15, 1}, {10, 705, 15, 1},
	{12, 706, 4, 1}, {12, 707, 4, 1}, {12, 708, 15, 1}, {12, 709, 15, 1}, {12, 710, 15, 1}, {12, 711, 15, 1},
	{11, 712, 4, 1}, {11, 713, 4, 1}, {11, 714, 15, 1}, {11, 715, 15, 1}, {11, 716, 15, 1}, {11, 717, 15, 1},
	{15, 800, 0, 1}, {15, 801, 15, 1},
	{4, 201, 15, 1}, {4, 200, 8, 1},
	{5, 400, 0, 1}, {5, 401, 15, 1},
	{16, 1000, 3, 3}, {16, 1001, 6, 3}, {16, 1003, 6, 1},
};
enum { RULES = sizeof rules / sizeof *rules };

struct descriptor {
	int alive, type, finalized, engine;
	int64_t values[RULES][4];
	int set[RULES];
};

static int left;

static int fails(const char *name, int concerns) {
	const char *v = getenv("FAKE_CUDNN_FAIL");
	char at[64];
	size_t n = snprintf(at, sizeof at, "%s/%d=", name, concerns);
	if (!v) return OK;
	if (!strncmp(v, at, n)) return atoi(v + n);
	n = snprintf(at, sizeof at, "%s=", name);
	return strncmp(v, at, n) ? OK : atoi(v + n);
}

static int size_of(int type) { return type == 0 || type == 3 || type == 6 || type == 15 ? 8 : 4; }

// The value of an attribute, which is there in what is finalized.
static int64_t *value(struct descriptor *d, int attribute) {
	for (int i = 0; i < RULES; i++)
		if (rules[i].descriptor == d->type && rules[i].attribute == attribute) return d->values[i];
	abort();
}
static struct descriptor *descriptor(struct descriptor *d, int attribute) { return *(struct descriptor **)value(d, attribute); }
static int whole(struct descriptor *d) { return d->alive == ALIVE && d->finalized; }

// The device that is current on this thread, as the fake libcuda knows it.
static int current(void) {
	const char *name = getenv("GOTRAIN_LIBCUDA");
	void *l = name ? dlopen(name, RTLD_NOLOAD | RTLD_NOW) : NULL;
	int (*f)(void) = l ? (int (*)(void))dlsym(l, "fake_current") : NULL;
	return f ? f() : -1;
}

size_t cudnnGetVersion() { const char *v = getenv("FAKE_CUDNN_VERSION"); return v ? atoi(v) : 91002; }
const char *cudnnGetErrorString(cudnnStatus_t status) { return status == BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "as the test wants it"; }
void cudnnGetLastErrorString(char *text, size_t length) { snprintf(text, length, "the last error\n"); }

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
	int code = fails("cudnnCreate", 0);
	if (code) return code;
	if (current() < 0) return 1001;
	*handle = calloc(1, sizeof **handle);
	(*handle)->device = current();
	return OK;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
	int code = fails("cudnnDestroy", 0);
	const char *path = getenv("FAKE_CUDNN_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (f) { fprintf(f, "left %d\n", left); fclose(f); }
	free(handle);
	return code;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
	int code = fails("cudnnSetStream", 0);
	handle->stream = stream;
	return code ? code : current() == handle->device && stream ? OK : BAD_PARAM;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out) {
	struct descriptor *d;
	int code = fails("cudnnBackendCreateDescriptor", type);
	if (code) return code;
	d = calloc(1, sizeof *d);
	d->alive = ALIVE;
	d->type = type;
	left++;
	*out = d;
	return OK;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t p) {
	struct descriptor *d = p;
	if (d->alive != ALIVE) abort();
	d->alive = 0; // the memory stays, so that its use is noticed
	left--;
	return OK;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void *values) {
	struct descriptor *d = p;
	int code = fails("cudnnBackendSetAttribute", name);
	if (code) return code;
	if (d->alive != ALIVE || d->finalized) return BAD_PARAM;
	for (int i = 0; i < RULES; i++) {
		if (rules[i].descriptor != d->type || rules[i].attribute != name) continue;
		if (rules[i].type != type || rules[i].count != count) return BAD_PARAM;
		if (type == 15 && !whole(*(struct descriptor *const *)values)) return NOT_FINALIZED;
		memcpy(d->values[i], values, count * size_of(type));
		d->set[i] = 1;
		return OK;
	}
	return BAD_PARAM;
}

// The operation of a graph, and its tensors.
struct operation { struct descriptor *conv, *x, *w, *y; int type; };

static struct operation operation(struct descriptor *graph) {
	struct descriptor *o = descriptor(graph, 801);
	int type = o->type;
	return (struct operation){
		descriptor(o, type == 10 ? 702 : type == 12 ? 708 : 714), descriptor(o, type == 10 ? 704 : type == 12 ? 710 : 716),
		descriptor(o, type == 10 ? 703 : type == 12 ? 709 : 715), descriptor(o, type == 10 ? 705 : type == 12 ? 711 : 717), type};
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p) {
	struct descriptor *d = p;
	int code = fails("cudnnBackendFinalize", d->type);
	if (code) return code;
	if (d->finalized || current() < 0) return BAD_PARAM;
	for (int i = 0; i < RULES; i++)
		if (rules[i].descriptor == d->type && !d->set[i]) return BAD_PARAM;
	if (d->type == 5 && descriptor(d, 401)->engine == 3) return 3000; // an engine that refuses for reasons of its own
	if (d->type == 15) {
		struct operation o = operation(d);
		int64_t *x = value(o.x, 902), *w = value(o.w, 902), *y = value(o.y, 902), *s = value(o.conv, 103), *before = value(o.conv, 105), *after = value(o.conv, 104);
		if (x[0] != y[0] || x[1] != w[1] || y[1] != w[0] || *(int *)value(o.conv, 101) != 1 || *value(o.conv, 106) != 2 || *value(o.conv, 102) != 1) return BAD_PARAM;
		for (int i = 0; i < 2; i++)
			if (y[2 + i] != (x[2 + i] + before[i] + after[i] - w[2 + i]) / s[i] + 1) return BAD_PARAM;
	}
	d->finalized = 1;
	return OK;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *values) {
	struct descriptor *d = p;
	int code = fails("cudnnBackendGetAttribute", name);
	const char *engines = getenv("FAKE_CUDNN_ENGINES");
	if (code) return code;
	if (!whole(d)) return NOT_FINALIZED;
	if (d->type == 4 && name == 202 && type == 15) {
		if (!engines) engines = "01234";
		if (*(int *)value(d, 200) == 2) engines = "5";
		*count = strlen(engines);
		for (int i = 0; i < room && i < *count; i++) {
			struct descriptor *c = ((struct descriptor **)values)[i];
			if (c->type != 3 || c->finalized) return BAD_PARAM;
			c->engine = engines[i] - '0';
			c->finalized = 1;
			c->values[0][0] = (int64_t)descriptor(d, 201);
		}
		return OK;
	}
	*count = 1;
	if (d->type == 3 && name == 300 && type == 15 && room == 1) {
		struct descriptor *e = *(struct descriptor **)values;
		if (e->type != 2) return BAD_PARAM;
		e->engine = d->engine;
		e->finalized = 1;
		return OK;
	}
	if (d->type == 2 && name == 1303 && type == 11 && room >= 10) {
		// 0 has tensor cores, 1 is not deterministic
		*count = d->engine < 2;
		*(int *)values = d->engine == 0 ? 0 : 4;
		return OK;
	}
	if (d->type == 2 && name == 1301 && type == 3 && room == 1) { *(int64_t *)values = d->engine; return OK; }
	if (d->type == 5 && name == 402 && type == 3 && room == 1) { // 2 wants much workspace
		*(int64_t *)values = descriptor(d, 401)->engine == 2 ? 1l << 30 : 4096;
		return OK;
	}
	return BAD_PARAM;
}

static float load(struct descriptor *t, const void *memory, int64_t i) {
	union { uint32_t bits; float value; } v;
	if (*(int *)value(t, 901) == 0) return ((const float *)memory)[i];
	v.bits = (uint32_t)((const uint16_t *)memory)[i] << 16;
	return v.value;
}
static void store(struct descriptor *t, void *memory, int64_t i, float f) {
	union { float value; uint32_t bits; } v = {f};
	if (*(int *)value(t, 901) == 0) ((float *)memory)[i] = f;
	else ((uint16_t *)memory)[i] = (v.bits + 0x7fff + (v.bits >> 16 & 1)) >> 16; // nearest, ties to even
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t p) {
	struct descriptor *pack = p, *configuration, *graph, *tensors[3], *out;
	struct operation o;
	int64_t *x, *w, *y, *strides[3], stride, pad, sizes[3], *ids;
	void **memory;
	float *sums, *values[3];
	int code = fails("cudnnBackendExecute", 0), k;
	if (code) return code;
	if (current() != handle->device || !whole(plan) || !whole(pack)) return EXECUTION_FAILED;
	configuration = descriptor(plan, 401);
	if (!whole(configuration)) return EXECUTION_FAILED;
	graph = (struct descriptor *)configuration->values[0][0];
	if (!whole(graph)) return EXECUTION_FAILED;
	o = operation(graph);
	if (!whole(o.conv) || !whole(o.x) || !whole(o.w) || !whole(o.y)) return EXECUTION_FAILED;
	tensors[0] = o.x, tensors[1] = o.w, tensors[2] = o.y;
	x = value(o.x, 902), w = value(o.w, 902), y = value(o.y, 902), ids = value(pack, 1000);
	memory = (void **)value(pack, 1001);
	if (!*(void **)value(pack, 1003)) return EXECUTION_FAILED;
	stride = value(o.conv, 103)[0], pad = value(o.conv, 105)[0];
	for (int i = 0; i < 3; i++) {
		if (ids[i] != value(tensors[i], 906)[0] || (uintptr_t)memory[i] % value(tensors[i], 900)[0]) return BAD_PARAM;
	}
	for (int i = 0; i < 3; i++) {
		int64_t *n = value(tensors[i], 902);
		strides[i] = value(tensors[i], 903);
		sizes[i] = n[0] * n[1] * n[2] * n[3];
		values[i] = malloc(sizes[i] * sizeof(float));
		for (int64_t j = 0; j < sizes[i]; j++) values[i][j] = load(tensors[i], memory[i], j);
	}
	k = o.type == 10 ? 2 : o.type == 12 ? 0 : 1; // what is filled
	out = tensors[k];
	sums = calloc(sizes[k], sizeof *sums);
#define AT(t, a, b, c, d) ((a) * strides[t][0] + (b) * strides[t][1] + (c) * strides[t][2] + (d) * strides[t][3])
	for (int64_t n = 0; n < y[0]; n++) for (int64_t f = 0; f < y[1]; f++) for (int64_t i = 0; i < y[2]; i++) for (int64_t j = 0; j < y[3]; j++)
		for (int64_t c = 0; c < x[1]; c++) for (int64_t r = 0; r < w[2]; r++) for (int64_t s = 0; s < w[3]; s++) {
			int64_t h = i * stride + r - pad, v = j * stride + s - pad, a, b, e;
			if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
			a = AT(0, n, c, h, v), b = AT(1, f, c, r, s), e = AT(2, n, f, i, j);
			if (k == 0) sums[a] += values[1][b] * values[2][e];
			if (k == 1) sums[b] += values[0][a] * values[2][e];
			if (k == 2) sums[e] += values[0][a] * values[1][b];
		}
	for (int64_t j = 0; j < sizes[k]; j++) store(out, memory[k], j, sums[j]);
	for (int i = 0; i < 3; i++) free(values[i]);
	free(sums);
	return OK;
}
