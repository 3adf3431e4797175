#define _GNU_SOURCE
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>

int gotrain_nccl_load(struct gotrain_nccl *api, const char *library, char *text, size_t length) {
	void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!l) {
		snprintf(text, length, "%s", dlerror());
		return GOTRAIN_NCCL_NO_LIBRARY;
	}
	// The library stays, whatever comes of it: what its constructors did cannot be undone.
#define F(name, arguments, result, ...) \
	if (!(api->name = (result (*)(__VA_ARGS__))dlsym(l, #name))) { \
		snprintf(text, length, #name); \
		return GOTRAIN_NCCL_NO_FUNCTION; \
	}
	GOTRAIN_NCCL_FUNCTIONS(F)
#undef F
	api->ncclGetLastError = (const char *(*)(ncclComm_t))dlsym(l, "ncclGetLastError");
	return GOTRAIN_NCCL_LOADED;
}

ncclResult_t gotrain_nccl_sum(const struct gotrain_nccl *api, ncclComm_t comm, uintptr_t stream, uint64_t at, size_t count) {
	void *values = (void *)at;
	return api->ncclAllReduce(values, values, count, ncclFloat32, ncclSum, comm, (cudaStream_t)stream);
}

ncclResult_t gotrain_nccl_gather(const struct gotrain_nccl *api, ncclComm_t comm, uintptr_t stream, uint64_t at, size_t bytes, int rank) {
	char *all = (char *)at;
	return api->ncclAllGather(all + rank * bytes, all, bytes, ncclUint8, comm, (cudaStream_t)stream);
}

ncclResult_t gotrain_nccl_exchange(const struct gotrain_nccl *api, ncclComm_t comm, uintptr_t stream, const struct gotrain_nccl_message *messages, int count, const char **call) {
	ncclResult_t rc = api->ncclGroupStart(), end;
	*call = "ncclGroupStart";
	if (rc != ncclSuccess) return rc;
	for (int i = 0; i < count && rc == ncclSuccess; i++) {
		const struct gotrain_nccl_message *m = &messages[i];
		void *at = (void *)m->at;
		*call = m->send ? "ncclSend" : "ncclRecv";
		rc = m->send ? api->ncclSend(at, m->bytes, ncclUint8, m->peer, comm, (cudaStream_t)stream) : api->ncclRecv(at, m->bytes, ncclUint8, m->peer, comm, (cudaStream_t)stream);
	}
	end = api->ncclGroupEnd(); // also after a failure, or the thread stays within the group
	if (rc != ncclSuccess) return rc;
	*call = "ncclGroupEnd";
	return end;
}

const char *gotrain_nccl_last_error(const struct gotrain_nccl *api, ncclComm_t comm) {
	const char *text = api->ncclGetLastError ? api->ncclGetLastError(comm) : NULL;
	return text ? text : "";
}
