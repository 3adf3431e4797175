#define _GNU_SOURCE
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>

int gotrain_cudnn_load(struct gotrain_cudnn *api, const char *library, char *text, size_t length) {
	void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!l) {
		snprintf(text, length, "%s", dlerror());
		return GOTRAIN_CUDNN_NO_LIBRARY;
	}
	// The library stays, whatever comes of it: what its constructors did cannot be undone.
#define F(name, arguments, result, ...) \
	if (!(api->name = (result (*)(__VA_ARGS__))dlsym(l, #name))) { \
		snprintf(text, length, #name); \
		return GOTRAIN_CUDNN_NO_FUNCTION; \
	}
	GOTRAIN_CUDNN_FUNCTIONS(F)
#undef F
	return GOTRAIN_CUDNN_LOADED;
}

struct work {
	const struct gotrain_cudnn *api;
	cudnnHandle_t handle;
	struct gotrain_cudnn_conv *c;
	cudnnStatus_t status; // of the first call that failed; no further one is made
};

static int failed(struct work *w, const char *call, int concerns, cudnnStatus_t status) {
	if (w->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
		w->status = status;
		w->c->call = call;
		w->c->concerns = concerns;
	}
	return w->status != CUDNN_STATUS_SUCCESS;
}

// A descriptor that is released with the others.
static cudnnBackendDescriptor_t make(struct work *w, int type) {
	cudnnBackendDescriptor_t d = NULL;
	if (w->status != CUDNN_STATUS_SUCCESS || failed(w, "cudnnBackendCreateDescriptor", type, w->api->cudnnBackendCreateDescriptor(type, &d))) return NULL;
	w->c->made[w->c->count++] = d;
	return d;
}

static void release(const struct gotrain_cudnn *api, struct gotrain_cudnn_conv *c, int from) {
	while (c->count > from) api->cudnnBackendDestroyDescriptor(c->made[--c->count]);
}

void gotrain_cudnn_release(const struct gotrain_cudnn *api, struct gotrain_cudnn_conv *c) {
	if (c->plan) api->cudnnBackendDestroyDescriptor(c->plan);
	c->plan = NULL;
	release(api, c, 0);
}

static void set(struct work *w, cudnnBackendDescriptor_t d, int name, int type, int64_t count, const void *values) {
	if (w->status == CUDNN_STATUS_SUCCESS) failed(w, "cudnnBackendSetAttribute", name, w->api->cudnnBackendSetAttribute(d, name, type, count, values));
}

static void set_descriptor(struct work *w, cudnnBackendDescriptor_t d, int name, cudnnBackendDescriptor_t value) {
	set(w, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static cudnnBackendDescriptor_t finalize(struct work *w, cudnnBackendDescriptor_t d, int type) {
	if (w->status == CUDNN_STATUS_SUCCESS) failed(w, "cudnnBackendFinalize", type, w->api->cudnnBackendFinalize(d));
	return d;
}

static int64_t get(struct work *w, cudnnBackendDescriptor_t d, int name, int type, int64_t room, void *values) {
	int64_t count = 0;
	if (w->status == CUDNN_STATUS_SUCCESS) failed(w, "cudnnBackendGetAttribute", name, w->api->cudnnBackendGetAttribute(d, name, type, room, &count, values));
	return count;
}

static cudnnBackendDescriptor_t tensor(struct work *w, int64_t id, const struct gotrain_cudnn_tensor *t) {
	cudnnBackendDescriptor_t d = make(w, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	const int64_t *n = t->dimensions, strides[] = {n[2] * n[3] * n[1], 1, n[3] * n[1], n[1]}, alignment = 16;
	cudnnBackendAttributeType_t integer = CUDNN_TYPE_INT64;
	set(w, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, integer, 1, &id);
	set(w, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t->type);
	set(w, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, integer, 1, &alignment);
	set(w, d, CUDNN_ATTR_TENSOR_DIMENSIONS, integer, 4, n);
	set(w, d, CUDNN_ATTR_TENSOR_STRIDES, integer, 4, strides);
	return finalize(w, d, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
}

// The graph of the one operation.
static cudnnBackendDescriptor_t graph(struct work *w) {
	static const struct { int descriptor, alpha, beta, conv, x, w, y; } passes[] = {
		{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
			CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
			CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
		{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
			CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
			CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
		{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
			CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
			CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
	};
	const struct gotrain_cudnn_conv *c = w->c;
	const int64_t two = 2, strides[] = {c->stride, c->stride}, pads[] = {c->pad, c->pad}, dilations[] = {1, 1};
	const int mode = CUDNN_CROSS_CORRELATION, type = CUDNN_DATA_FLOAT;
	const float alpha = 1, beta = 0;
	cudnnBackendDescriptor_t x = tensor(w, 'x', &c->x), f = tensor(w, 'w', &c->w), y = tensor(w, 'y', &c->y), conv, operation, g;

	conv = make(w, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	set(w, conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
	set(w, conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	set(w, conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two);
	set(w, conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations);
	set(w, conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
	set(w, conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
	set(w, conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
	finalize(w, conv, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

	operation = make(w, passes[c->pass].descriptor);
	set_descriptor(w, operation, passes[c->pass].conv, conv);
	set_descriptor(w, operation, passes[c->pass].x, x);
	set_descriptor(w, operation, passes[c->pass].w, f);
	set_descriptor(w, operation, passes[c->pass].y, y);
	set(w, operation, passes[c->pass].alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
	set(w, operation, passes[c->pass].beta, CUDNN_TYPE_FLOAT, 1, &beta);
	finalize(w, operation, passes[c->pass].descriptor);

	g = make(w, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	set(w, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &w->handle);
	set_descriptor(w, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
	return finalize(w, g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
}

// Makes a plan of a configuration of an engine, unless it does not do what is wanted: many refuse for reasons of their own.
static void consider(struct work *w, cudnnBackendDescriptor_t configuration) {
	struct gotrain_cudnn_conv *c = w->c;
	cudnnBackendDescriptor_t engine, plan = NULL;
	int notes[32];
	int64_t count, bytes = 0;
	cudnnStatus_t status;

	engine = make(w, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	get(w, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
	count = get(w, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 32, notes);
	for (int64_t i = 0; i < count && w->status == CUDNN_STATUS_SUCCESS; i++)
		if (c->refused >> notes[i] & 1) return;
	get(w, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &c->engine);
	if (w->status != CUDNN_STATUS_SUCCESS || failed(w, "cudnnBackendCreateDescriptor", CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
		w->api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan))) return;
	set(w, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &w->handle);
	set_descriptor(w, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
	if (w->status == CUDNN_STATUS_SUCCESS) {
		status = w->api->cudnnBackendFinalize(plan);
		if (status == CUDNN_STATUS_SUCCESS) {
			get(w, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
			if (w->status == CUDNN_STATUS_SUCCESS && bytes <= c->limit) {
				c->workspace = bytes;
				c->plan = plan;
				return;
			}
		}
	}
	w->api->cudnnBackendDestroyDescriptor(plan);
}

// Asks heuristics for configurations, and takes the first that will do.
static void search(struct work *w, cudnnBackendDescriptor_t g, int mode) {
	cudnnBackendDescriptor_t heuristics = make(w, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), found[64];
	int64_t count;
	set_descriptor(w, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g);
	set(w, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
	finalize(w, heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	count = get(w, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
	if (count > 64) count = 64; // the best come first
	for (int i = 0; i < count; i++) found[i] = make(w, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	if (count > 0) count = get(w, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, found);
	for (int i = 0; i < count && !w->c->plan && w->status == CUDNN_STATUS_SUCCESS; i++) {
		int before = w->c->count;
		consider(w, found[i]);
		if (!w->c->plan) release(w->api, w->c, before);
	}
}

cudnnStatus_t gotrain_cudnn_plan(const struct gotrain_cudnn *api, cudnnHandle_t handle, struct gotrain_cudnn_conv *c) {
	struct work w = {.api = api, .handle = handle, .c = c};
	cudnnBackendDescriptor_t g;
	int before;
	c->plan = NULL;
	g = graph(&w);
	before = c->count;
	search(&w, g, CUDNN_HEUR_MODE_A);
	if (!c->plan && w.status == CUDNN_STATUS_SUCCESS) {
		release(api, c, before);
		search(&w, g, CUDNN_HEUR_MODE_FALLBACK);
	}
	if (!c->plan) release(api, c, 0);
	return w.status;
}

cudnnStatus_t gotrain_cudnn_run(const struct gotrain_cudnn *api, cudnnHandle_t handle, struct gotrain_cudnn_conv *c, uintptr_t stream, uint64_t x, uint64_t f, uint64_t y, uint64_t workspace) {
	struct work w = {.api = api, .handle = handle, .c = c};
	const int64_t ids[] = {'x', 'w', 'y'};
	void *pointers[] = {(void *)x, (void *)f, (void *)y}, *space = (void *)workspace;
	cudnnBackendDescriptor_t pack;
	int before = c->count;
	failed(&w, "cudnnSetStream", 0, api->cudnnSetStream(handle, (cudaStream_t)stream));
	pack = make(&w, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	set(&w, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers);
	set(&w, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
	set(&w, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &space);
	finalize(&w, pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	if (w.status == CUDNN_STATUS_SUCCESS) failed(&w, "cudnnBackendExecute", 0, api->cudnnBackendExecute(handle, c->plan, pack));
	release(api, c, before);
	return w.status;
}
