#define _GNU_SOURCE
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>

int gotrain_cuda_load(struct gotrain_cuda *api, const char *library, char *text, size_t length) {
	void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!l) {
		snprintf(text, length, "%s", dlerror());
		return GOTRAIN_CUDA_NO_LIBRARY;
	}
	// The library stays, whatever comes of it: what its constructors did cannot be undone.
#define F(name, arguments, ...) \
	if (!(api->name = (CUresult (*)(__VA_ARGS__))dlsym(l, #name))) { \
		snprintf(text, length, #name); \
		return GOTRAIN_CUDA_NO_FUNCTION; \
	}
	GOTRAIN_CUDA_FUNCTIONS(F)
#undef F
	return GOTRAIN_CUDA_LOADED;
}

CUresult gotrain_cuda_launch(const struct gotrain_cuda *api, CUstream stream, const struct gotrain_launch *launches, int count, char *parameters, int *done) {
	for (*done = 0; *done < count; ++*done) {
		const struct gotrain_launch *l = &launches[*done];
		size_t bytes = l->bytes;
		void *extra[] = {
			CU_LAUNCH_PARAM_BUFFER_POINTER, parameters + l->offset,
			CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			CU_LAUNCH_PARAM_END,
		};
		CUresult rc = api->cuLaunchKernel((CUfunction)l->function, l->grid[0], l->grid[1], l->grid[2],
			l->block[0], l->block[1], l->block[2], l->shared, stream, NULL, bytes ? extra : NULL);
		if (rc != CUDA_SUCCESS) return rc;
	}
	return CUDA_SUCCESS;
}

CUresult gotrain_cuda_compile(const struct gotrain_cuda *api, CUmodule *module, const char *ptx, char *log, size_t length) {
	CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)(uintptr_t)(unsigned)(length - 1)};
	CUresult rc = api->cuModuleLoadDataEx(module, ptx, 2, names, values);
	log[length - 1] = 0;
	return rc;
}

// Between these two, what the thread calls concerns the context. A failure of the wait says more than one of the pop.
#define WAIT(call) \
	CUcontext popped; \
	CUresult rc = api->cuCtxPushCurrent_v2(context), pop; \
	if (rc != CUDA_SUCCESS) return rc; \
	rc = api->call; \
	pop = api->cuCtxPopCurrent_v2(&popped); \
	return rc != CUDA_SUCCESS ? rc : pop;

CUresult gotrain_cuda_wait_context(const struct gotrain_cuda *api, CUcontext context) { WAIT(cuCtxSynchronize()) }
CUresult gotrain_cuda_wait_stream(const struct gotrain_cuda *api, CUcontext context, CUstream stream) { WAIT(cuStreamSynchronize(stream)) }
CUresult gotrain_cuda_wait_event(const struct gotrain_cuda *api, CUcontext context, CUevent event) { WAIT(cuEventSynchronize(event)) }
