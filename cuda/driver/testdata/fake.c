// A libcuda.so.1 for tests of the calls into one. It is strict about threads and contexts, runs what streams are given at
// once, and captures it into graphs. Its kernels do nothing, but for those whose name begins with store: they store the
// uint32 at offset 8 of their parameters at the address at offset 0. From the environment:
//
//   FAKE_CUDA_VERSION   what cuDriverGetVersion tells; 12080 by default
//   FAKE_CUDA_DEVICES   how many devices there are; 2 by default
//   FAKE_CUDA_MAJOR     their compute capability; 9 by default
//   FAKE_CUDA_PEERS     0: they do not reach each other
//   FAKE_CUDA_FAIL      NAME=CODE makes a function fail, NAME=CODE:N its N-th call
//   FAKE_CUDA_LOG       the file to which a line is appended for what runs and for what is set up

#define _GNU_SOURCE
#include "../api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, CAPTURE_INVALID = 901 };

struct CUctx_st { int device, thread, retained, live; };
struct operation { char text[512]; CUdeviceptr to, from; size_t bytes; unsigned value; int kind; };
struct CUgraph_st { struct operation operations[64]; int count; };
struct CUgraphExec_st { struct CUgraph_st graph; };
struct CUmod_st { struct CUctx_st *context; char *text; };
struct CUfunc_st { struct CUctx_st *context; char name[64]; };
struct CUstream_st { struct CUctx_st *context; struct CUgraph_st *capture; int origin; };
struct CUevent_st { struct CUctx_st *context; struct CUgraph_st *capture; float ms; };

static struct CUctx_st contexts[8];
static __thread struct CUctx_st *current, *below;
static struct CUstream_st *streams[64]; // of one test
static int created;
static float clock_ms;

static int number(const char *variable, int otherwise) {
	const char *v = getenv(variable);
	return v ? atoi(v) : otherwise;
}

static void record(const char *line) {
	const char *path = getenv("FAKE_CUDA_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (!f) return;
	fprintf(f, "%s\n", line);
	fclose(f);
}

// Whether a call is to fail.
static int fails(const char *name, int *calls) {
	const char *v = getenv("FAKE_CUDA_FAIL");
	size_t n = strlen(name);
	int code, nth = 0;
	if (!v || strncmp(v, name, n) || v[n] != '=') return OK;
	++*calls;
	if (sscanf(v + n + 1, "%d:%d", &code, &nth) == 2 && nth != *calls) return OK;
	return code;
}

#define ENTER(name) do { static int calls; int code = fails(#name, &calls); if (code) return code; } while (0)
// Calls that concern a context are made on the thread that made it current first.
#define ON(name, c) do { ENTER(name); if (!current || current != (c) || current->thread != gettid()) return INVALID_CONTEXT; } while (0)

// For fakes of other libraries: the device whose context is current, or -1.
int fake_current(void) { return current ? current->device : -1; }

CUresult cuInit(unsigned flags) { ENTER(cuInit); return flags ? INVALID_VALUE : number("FAKE_CUDA_DEVICES", 2) ? OK : 100; }
CUresult cuDriverGetVersion(int *version) { ENTER(cuDriverGetVersion); *version = number("FAKE_CUDA_VERSION", 12080); return OK; }
CUresult cuGetErrorName(CUresult code, const char **text) {
	if (code == 12345) return INVALID_VALUE;
	*text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
	return OK;
}
CUresult cuGetErrorString(CUresult code, const char **text) {
	if (code == 12345) return INVALID_VALUE;
	*text = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : "as the test wants it";
	return OK;
}

CUresult cuDeviceGetCount(int *count) { ENTER(cuDeviceGetCount); *count = number("FAKE_CUDA_DEVICES", 2); return OK; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { ENTER(cuDeviceGet); *device = 10 + ordinal; return OK; }
CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
	ENTER(cuDeviceGetName);
	snprintf(name, length, "Fake %c", 'A' + device - 10);
	return OK;
}
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
	ENTER(cuDeviceGetUuid_v2);
	for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(0xf0 + i);
	uuid->bytes[15] = device;
	return OK;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
	ENTER(cuDeviceGetAttribute);
	switch (attribute) {
	case 16: *value = 132; return OK;
	case 38: *value = 50 << 20; return OK;
	case 75: *value = number("FAKE_CUDA_MAJOR", 9); return OK;
	case 76: *value = 0; return OK;
	case 97: *value = 232448; return OK;
	}
	return INVALID_VALUE;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { ENTER(cuDeviceTotalMem_v2); *bytes = 80ul << 30; return OK; }
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
	ENTER(cuDeviceCanAccessPeer);
	*can = number("FAKE_CUDA_PEERS", 1);
	return device == peer ? INVALID_VALUE : OK;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
	ENTER(cuDevicePrimaryCtxRetain);
	*context = &contexts[device - 10];
	(*context)->device = device - 10;
	(*context)->thread = 0;
	(*context)->retained++;
	return OK;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
	char line[64];
	ENTER(cuDevicePrimaryCtxRelease_v2);
	snprintf(line, sizeof line, "release %d, left %d", device - 10, contexts[device - 10].live);
	record(line);
	contexts[device - 10].retained--;
	contexts[device - 10].live = 0;
	return OK;
}
CUresult cuCtxSetCurrent(CUcontext context) {
	ENTER(cuCtxSetCurrent);
	current = context;
	if (!context->thread) context->thread = gettid();
	return OK;
}
CUresult cuCtxPushCurrent_v2(CUcontext context) { ENTER(cuCtxPushCurrent_v2); below = current; current = context; return OK; }
CUresult cuCtxPopCurrent_v2(CUcontext *context) { ENTER(cuCtxPopCurrent_v2); *context = current; current = below; return OK; }
CUresult cuCtxSynchronize(void) { ENTER(cuCtxSynchronize); return current ? OK : INVALID_CONTEXT; }
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) { ON(cuCtxEnablePeerAccess, current); return peer == current ? INVALID_VALUE : OK; }

CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
	ON(cuMemGetInfo_v2, current);
	*unused = 3 << 20;
	*total = 80ul << 30;
	return OK;
}
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
	ON(cuMemAlloc_v2, current);
	*pointer = (CUdeviceptr)aligned_alloc(256, (bytes + 255) / 256 * 256);
	current->live++;
	return OK;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) { ON(cuMemFree_v2, current); free((void *)pointer); current->live--; return OK; }
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
	ON(cuMemHostAlloc, current);
	if (flags != 3) return INVALID_VALUE;
	*memory = malloc(bytes);
	current->live++;
	return OK;
}
CUresult cuMemFreeHost(void *memory) { ON(cuMemFreeHost, current); free(memory); current->live--; return OK; }
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *memory, unsigned flags) {
	ON(cuMemHostGetDevicePointer_v2, current);
	*pointer = (CUdeviceptr)memory;
	return flags ? INVALID_VALUE : OK;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned options, CUjit_option *names, void **values) {
	ON(cuModuleLoadDataEx, current);
	if (options != 2 || names[0] != 5 || names[1] != 6) return INVALID_VALUE;
	if (!strstr(image, ".version")) {
		snprintf(values[0], (unsigned)(uintptr_t)values[1], "ptxas fatal : no .version\n");
		return INVALID_PTX;
	}
	*module = malloc(sizeof **module);
	**module = (struct CUmod_st){current, strdup(image)};
	current->live++;
	return OK;
}
CUresult cuModuleUnload(CUmodule module) { ON(cuModuleUnload, module->context); current->live--; free(module->text); free(module); return OK; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
	char entry[80];
	ON(cuModuleGetFunction, module->context);
	snprintf(entry, sizeof entry, ".entry %s(", name);
	if (!strstr(module->text, entry)) return NOT_FOUND;
	*function = malloc(sizeof **function); // lost, as nothing frees a function
	(*function)->context = current;
	snprintf((*function)->name, sizeof (*function)->name, "%s", name);
	return OK;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
	char line[128];
	ON(cuFuncSetAttribute, function->context);
	if (attribute != 8 || value > 232448) return INVALID_VALUE;
	snprintf(line, sizeof line, "allow %s %d", function->name, value);
	record(line);
	return OK;
}

enum { COPY, FILL, STORE, NOTHING };

static void perform(const struct operation *o) {
	clock_ms += 0.5f;
	record(o->text);
	switch (o->kind) {
	case COPY: memcpy((void *)o->to, (void *)o->from, o->bytes); break;
	case FILL: for (size_t i = 0; i < o->bytes; i++) ((unsigned *)o->to)[i] = o->value; break;
	case STORE: *(unsigned *)o->to = o->value; break;
	}
}

static CUresult give(CUstream s, const struct operation *o) {
	if (!s->capture) { perform(o); return OK; }
	if (s->capture->count == 64) return INVALID_VALUE;
	s->capture->operations[s->capture->count++] = *o;
	return OK;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
	struct operation o = {.kind = COPY, .to = to, .from = from, .bytes = bytes};
	ON(cuMemcpyAsync, stream->context);
	snprintf(o.text, sizeof o.text, "copy %d: %zu", current->device, bytes);
	return give(stream, &o);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t words, CUstream stream) {
	struct operation o = {.kind = FILL, .to = to, .value = value, .bytes = words};
	ON(cuMemsetD32Async, stream->context);
	snprintf(o.text, sizeof o.text, "fill %d: %zu words", current->device, words);
	return give(stream, &o);
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra) {
	struct operation o = {.kind = NOTHING};
	size_t n, bytes = 0;
	const unsigned char *buffer = NULL;
	ON(cuLaunchKernel, stream->context);
	if (f->context != current) return INVALID_HANDLE;
	if (parameters) return INVALID_VALUE;
	if (extra) {
		if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4]) return INVALID_VALUE;
		buffer = extra[1];
		bytes = *(size_t *)extra[3];
	}
	n = snprintf(o.text, sizeof o.text, "launch %d: %s %u,%u,%u %u,%u,%u %u ", current->device, f->name, gx, gy, gz, bx, by, bz, shared);
	for (size_t i = 0; i < bytes && n < sizeof o.text - 3; i++) n += snprintf(o.text + n, sizeof o.text - n, "%02x", buffer[i]);
	if (!strncmp(f->name, "store", 5)) {
		if (bytes != 12) return INVALID_VALUE;
		o.kind = STORE;
		memcpy(&o.to, buffer, 8);
		memcpy(&o.value, buffer + 8, 4);
	}
	return give(stream, &o);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
	ON(cuStreamCreate, current);
	if (flags != 1) return INVALID_VALUE;
	*stream = calloc(1, sizeof **stream);
	(*stream)->context = current;
	streams[__atomic_fetch_add(&created, 1, __ATOMIC_SEQ_CST) % 64] = *stream;
	current->live++;
	return OK;
}
CUresult cuStreamDestroy_v2(CUstream stream) { ON(cuStreamDestroy_v2, stream->context); current->live--; return OK; } // streams keeps it
CUresult cuStreamSynchronize(CUstream stream) {
	ENTER(cuStreamSynchronize);
	if (current != stream->context || current->thread == gettid()) return INVALID_CONTEXT; // waits are to be elsewhere
	return stream->capture ? 900 : OK;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
	ON(cuStreamWaitEvent, stream->context);
	if (event->capture) stream->capture = event->capture;
	return flags ? INVALID_VALUE : OK;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
	ON(cuStreamBeginCapture_v2, stream->context);
	if (mode != 2) return INVALID_VALUE;
	stream->capture = calloc(1, sizeof *stream->capture);
	stream->origin = 1;
	return OK;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
	ON(cuStreamEndCapture, stream->context);
	if (!stream->capture || !stream->origin) return CAPTURE_INVALID;
	*graph = stream->capture;
	stream->origin = 0;
	for (int i = 0; i < 64; i++)
		if (streams[i] && streams[i]->capture == *graph) streams[i]->capture = NULL;
	current->live++;
	return OK;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
	ON(cuEventCreate, current);
	if (flags & ~1u) return INVALID_VALUE; // without a time
	*event = calloc(1, sizeof **event);
	(*event)->context = current;
	current->live++;
	return OK;
}
CUresult cuEventDestroy_v2(CUevent event) { ON(cuEventDestroy_v2, event->context); current->live--; free(event); return OK; }
CUresult cuEventRecord(CUevent event, CUstream stream) {
	ON(cuEventRecord, stream->context);
	if (event->context != current) return INVALID_HANDLE;
	event->capture = stream->capture;
	event->ms = clock_ms;
	return OK;
}
CUresult cuEventSynchronize(CUevent event) {
	ENTER(cuEventSynchronize);
	if (current != event->context || current->thread == gettid()) return INVALID_CONTEXT;
	return OK;
}
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) { ENTER(cuEventElapsedTime); *ms = end->ms - start->ms; return OK; }

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
	ENTER(cuGraphGetNodes);
	*count = graph->count;
	return nodes ? INVALID_VALUE : OK;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
	ON(cuGraphInstantiateWithFlags, current);
	*executable = malloc(sizeof **executable);
	(*executable)->graph = *graph;
	current->live++;
	return flags ? INVALID_VALUE : OK;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
	ON(cuGraphLaunch, stream->context);
	for (int i = 0; i < executable->graph.count; i++) perform(&executable->graph.operations[i]);
	return OK;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) { ON(cuGraphExecDestroy, current); current->live--; free(executable); return OK; }
CUresult cuGraphDestroy(CUgraph graph) { ON(cuGraphDestroy, current); current->live--; free(graph); return OK; }
