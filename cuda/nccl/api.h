// The functions of libnccl.so.2 that are used, and a way to call each from Go. NVIDIA's header is not needed: what is declared
// here is the ABI of NCCL 2.9 and newer (docs.nvidia.com/deeplearning/nccl). A test compares it with an nccl.h, where one is
// given.

#ifndef GOTRAIN_NCCL_API_H
#define GOTRAIN_NCCL_API_H

#include <stddef.h>
#include <stdint.h>

#ifndef NCCL_MAJOR // nccl.h defines it, with these types
typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t; // enums
typedef struct ncclComm *ncclComm_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct { char internal[128]; } ncclUniqueId;
enum { ncclSuccess = 0, ncclInProgress = 7, ncclUint8 = 1, ncclFloat32 = 7, ncclSum = 0 };
#endif

// F(name, the arguments of a call, what it returns, the parameters)
#define GOTRAIN_NCCL_FUNCTIONS(F) \
	F(ncclGetVersion, (version), ncclResult_t, int *version) \
	F(ncclGetUniqueId, (id), ncclResult_t, ncclUniqueId *id) \
	F(ncclCommInitRank, (comm, size, id, rank), ncclResult_t, ncclComm_t *comm, int size, ncclUniqueId id, int rank) \
	F(ncclCommDestroy, (comm), ncclResult_t, ncclComm_t comm) \
	F(ncclCommAbort, (comm), ncclResult_t, ncclComm_t comm) \
	F(ncclCommGetAsyncError, (comm, error), ncclResult_t, ncclComm_t comm, ncclResult_t *error) \
	F(ncclGetErrorString, (result), const char *, ncclResult_t result) \
	F(ncclAllReduce, (from, to, count, type, op, comm, stream), ncclResult_t, \
		const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) \
	F(ncclAllGather, (from, to, count, type, comm, stream), ncclResult_t, \
		const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) \
	F(ncclSend, (from, count, type, peer, comm, stream), ncclResult_t, \
		const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) \
	F(ncclRecv, (to, count, type, peer, comm, stream), ncclResult_t, \
		void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) \
	F(ncclGroupStart, (), ncclResult_t) \
	F(ncclGroupEnd, (), ncclResult_t)

// The addresses of the functions in a library, and for each a call_NAME: Go cannot call an address.
struct gotrain_nccl {
#define F(name, arguments, result, ...) result (*name)(__VA_ARGS__);
	GOTRAIN_NCCL_FUNCTIONS(F)
#undef F
	const char *(*ncclGetLastError)(ncclComm_t comm); // NULL before NCCL 2.13
};
#define F(name, arguments, result, ...) static inline result call_##name(const struct gotrain_nccl *api, ##__VA_ARGS__) { return api->name arguments; }
GOTRAIN_NCCL_FUNCTIONS(F)
#undef F

// One of several messages: addresses in the device's memory.
struct gotrain_nccl_message {
	uint64_t at;
	size_t bytes;
	int peer, send;
};

enum { GOTRAIN_NCCL_LOADED, GOTRAIN_NCCL_NO_LIBRARY, GOTRAIN_NCCL_NO_FUNCTION };

// Loads a library and looks up the functions. It tells what went wrong in text: the loader's message, or the name that the
// library lacks.
int gotrain_nccl_load(struct gotrain_nccl *api, const char *library, char *text, size_t length);

// Streams, and addresses in the device's memory, are numbers for Go.

// Replaces values by their sums.
ncclResult_t gotrain_nccl_sum(const struct gotrain_nccl *api, ncclComm_t comm, uintptr_t stream, uint64_t at, size_t count);

// Fills memory with the parts of all ranks, of which the own one is in its place.
ncclResult_t gotrain_nccl_gather(const struct gotrain_nccl *api, ncclComm_t comm, uintptr_t stream, uint64_t at, size_t bytes, int rank);

// Gives all messages to NCCL as one group; call tells which call has failed.
ncclResult_t gotrain_nccl_exchange(const struct gotrain_nccl *api, ncclComm_t comm, uintptr_t stream, const struct gotrain_nccl_message *messages, int count, const char **call);

const char *gotrain_nccl_last_error(const struct gotrain_nccl *api, ncclComm_t comm);

#endif
