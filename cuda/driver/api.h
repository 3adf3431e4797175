// The functions of libcuda.so.1 that are used, by the names under which the library exports them, and a way to call each
// from Go. NVIDIA's headers are not needed: what is declared here is the ABI of CUDA 11.8 and newer, 64 bits
// (docs.nvidia.com/cuda/cuda-driver-api). A test compares it with a cuda.h, where one is given.

#ifndef GOTRAIN_CUDA_API_H
#define GOTRAIN_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#ifndef CUDA_VERSION // cuda.h defines it, with these types
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct { char bytes[16]; } CUuuid;
typedef int CUdevice_attribute, CUfunction_attribute, CUjit_option, CUstreamCaptureMode; // enums

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_STUB_LIBRARY = 34,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
	CUDA_ERROR_TOO_MANY_PEERS = 711,
	CUDA_ERROR_ASSERT = 710,
	CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
	CUDA_ERROR_LAUNCH_FAILED = 719,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
	CUDA_ERROR_UNKNOWN = 999,

	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
	CU_JIT_ERROR_LOG_BUFFER = 5,
	CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
	CU_STREAM_NON_BLOCKING = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
	CU_EVENT_BLOCKING_SYNC = 1,
};
#define CU_MEMHOSTALLOC_PORTABLE 1
#define CU_MEMHOSTALLOC_DEVICEMAP 2
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#endif

// F(name, the arguments of a call, the parameters). The versioned names are those that the macros of cuda.h stand for.
#define GOTRAIN_CUDA_FUNCTIONS(F) \
	F(cuInit, (flags), unsigned flags) \
	F(cuDriverGetVersion, (version), int *version) \
	F(cuGetErrorName, (code, text), CUresult code, const char **text) \
	F(cuGetErrorString, (code, text), CUresult code, const char **text) \
	F(cuDeviceGetCount, (count), int *count) \
	F(cuDeviceGet, (device, ordinal), CUdevice *device, int ordinal) \
	F(cuDeviceGetName, (name, length, device), char *name, int length, CUdevice device) \
	F(cuDeviceGetUuid_v2, (uuid, device), CUuuid *uuid, CUdevice device) \
	F(cuDeviceGetAttribute, (value, attribute, device), int *value, CUdevice_attribute attribute, CUdevice device) \
	F(cuDeviceTotalMem_v2, (bytes, device), size_t *bytes, CUdevice device) \
	F(cuDeviceCanAccessPeer, (can, device, peer), int *can, CUdevice device, CUdevice peer) \
	F(cuDevicePrimaryCtxRetain, (context, device), CUcontext *context, CUdevice device) \
	F(cuDevicePrimaryCtxRelease_v2, (device), CUdevice device) \
	F(cuCtxSetCurrent, (context), CUcontext context) \
	F(cuCtxPushCurrent_v2, (context), CUcontext context) \
	F(cuCtxPopCurrent_v2, (context), CUcontext *context) \
	F(cuCtxSynchronize, ()) \
	F(cuCtxEnablePeerAccess, (peer, flags), CUcontext peer, unsigned flags) \
	F(cuMemGetInfo_v2, (unused, total), size_t *unused, size_t *total) \
	F(cuMemAlloc_v2, (pointer, bytes), CUdeviceptr *pointer, size_t bytes) \
	F(cuMemFree_v2, (pointer), CUdeviceptr pointer) \
	F(cuMemHostAlloc, (memory, bytes, flags), void **memory, size_t bytes, unsigned flags) \
	F(cuMemFreeHost, (memory), void *memory) \
	F(cuMemHostGetDevicePointer_v2, (pointer, memory, flags), CUdeviceptr *pointer, void *memory, unsigned flags) \
	F(cuMemcpyAsync, (to, from, bytes, stream), CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) \
	F(cuMemsetD32Async, (to, value, words, stream), CUdeviceptr to, unsigned value, size_t words, CUstream stream) \
	F(cuModuleLoadDataEx, (module, image, options, names, values), CUmodule *module, const void *image, unsigned options, CUjit_option *names, void **values) \
	F(cuModuleUnload, (module), CUmodule module) \
	F(cuModuleGetFunction, (function, module, name), CUfunction *function, CUmodule module, const char *name) \
	F(cuFuncSetAttribute, (function, attribute, value), CUfunction function, CUfunction_attribute attribute, int value) \
	F(cuLaunchKernel, (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra), CUfunction function, \
		unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra) \
	F(cuStreamCreate, (stream, flags), CUstream *stream, unsigned flags) \
	F(cuStreamDestroy_v2, (stream), CUstream stream) \
	F(cuStreamSynchronize, (stream), CUstream stream) \
	F(cuStreamWaitEvent, (stream, event, flags), CUstream stream, CUevent event, unsigned flags) \
	F(cuStreamBeginCapture_v2, (stream, mode), CUstream stream, CUstreamCaptureMode mode) \
	F(cuStreamEndCapture, (stream, graph), CUstream stream, CUgraph *graph) \
	F(cuEventCreate, (event, flags), CUevent *event, unsigned flags) \
	F(cuEventDestroy_v2, (event), CUevent event) \
	F(cuEventRecord, (event, stream), CUevent event, CUstream stream) \
	F(cuEventSynchronize, (event), CUevent event) \
	F(cuEventElapsedTime, (ms, start, end), float *ms, CUevent start, CUevent end) \
	F(cuGraphGetNodes, (graph, nodes, count), CUgraph graph, CUgraphNode *nodes, size_t *count) \
	F(cuGraphInstantiateWithFlags, (executable, graph, flags), CUgraphExec *executable, CUgraph graph, unsigned long long flags) \
	F(cuGraphLaunch, (executable, stream), CUgraphExec executable, CUstream stream) \
	F(cuGraphExecDestroy, (executable), CUgraphExec executable) \
	F(cuGraphDestroy, (graph), CUgraph graph)

// The addresses of the functions in a library, and for each a call_NAME: Go cannot call an address.
struct gotrain_cuda {
#define F(name, arguments, ...) CUresult (*name)(__VA_ARGS__);
	GOTRAIN_CUDA_FUNCTIONS(F)
#undef F
};
#define F(name, arguments, ...) static inline CUresult call_##name(const struct gotrain_cuda *api, ##__VA_ARGS__) { return api->name arguments; }
GOTRAIN_CUDA_FUNCTIONS(F)
#undef F

// One launch of several: the parameters lie at an offset in a buffer that all of them share.
struct gotrain_launch {
	uintptr_t function;
	unsigned grid[3], block[3], shared;
	size_t offset, bytes;
};

enum { GOTRAIN_CUDA_LOADED, GOTRAIN_CUDA_NO_LIBRARY, GOTRAIN_CUDA_NO_FUNCTION };

// Loads a library and looks up the functions. It tells what went wrong in text: the loader's message, or the name that the
// library lacks.
int gotrain_cuda_load(struct gotrain_cuda *api, const char *library, char *text, size_t length);

// Launches kernels until one fails; done says how many were launched.
CUresult gotrain_cuda_launch(const struct gotrain_cuda *api, CUstream stream, const struct gotrain_launch *launches, int count, char *parameters, int *done);

// Compiles PTX. What the compiler says of errors comes in log.
CUresult gotrain_cuda_compile(const struct gotrain_cuda *api, CUmodule *module, const char *ptx, char *log, size_t length);

// Wait on the calling thread, whatever it is: the context is the thread's own only meanwhile.
CUresult gotrain_cuda_wait_context(const struct gotrain_cuda *api, CUcontext context);
CUresult gotrain_cuda_wait_stream(const struct gotrain_cuda *api, CUcontext context, CUstream stream);
CUresult gotrain_cuda_wait_event(const struct gotrain_cuda *api, CUcontext context, CUevent event);

#endif
