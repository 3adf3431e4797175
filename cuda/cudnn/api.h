// The functions of libcudnn.so.9 that are used, the constants of its backend API, and a convolution made of them. NVIDIA's
// headers are not needed: what is declared here is the ABI of cuDNN 9 (docs.nvidia.com/deeplearning/cudnn/backend). A test
// compares it with a cudnn_graph.h, where one is given.

#ifndef GOTRAIN_CUDNN_API_H
#define GOTRAIN_CUDNN_API_H

#include <stddef.h>
#include <stdint.h>

#ifndef CUDNN_MAJOR // cudnn.h defines it, with these types
typedef int cudnnStatus_t, cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t; // enums
typedef struct cudnnContext *cudnnHandle_t;
typedef struct CUstream_st *cudaStream_t;
typedef void *cudnnBackendDescriptor_t;

enum {
	CUDNN_STATUS_SUCCESS = 0,
	CUDNN_STATUS_NOT_SUPPORTED = 3000, // and all below 4000, which say why

	CUDNN_DATA_FLOAT = 0,
	CUDNN_DATA_BFLOAT16 = 9,
	CUDNN_CROSS_CORRELATION = 1,
	CUDNN_HEUR_MODE_FALLBACK = 2,
	CUDNN_HEUR_MODE_A = 3,

	CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
	CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
	CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2,
	CUDNN_NUMERICAL_NOTE_FFT = 3,
	CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
	CUDNN_NUMERICAL_NOTE_WINOGRAD = 5,
	CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 = 6,
	CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 = 7,
	CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 = 8,

	CUDNN_TYPE_HANDLE = 0,
	CUDNN_TYPE_DATA_TYPE = 1,
	CUDNN_TYPE_INT64 = 3,
	CUDNN_TYPE_FLOAT = 4,
	CUDNN_TYPE_VOID_PTR = 6,
	CUDNN_TYPE_CONVOLUTION_MODE = 7,
	CUDNN_TYPE_HEUR_MODE = 8,
	CUDNN_TYPE_NUMERICAL_NOTE = 11,
	CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,

	CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
	CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
	CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
	CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
	CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
	CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
	CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
	CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
	CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
	CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
	CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,

	CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
	CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,
	CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
	CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,
	CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
	CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
	CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
	CUDNN_ATTR_ENGINEHEUR_MODE = 200,
	CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
	CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
	CUDNN_ATTR_ENGINECFG_ENGINE = 300,
	CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
	CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
	CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
	CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,
	CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
	CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702,
	CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
	CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,
	CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716,
	CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717,
	CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,
	CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,
	CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
	CUDNN_ATTR_TENSOR_DATA_TYPE = 901,
	CUDNN_ATTR_TENSOR_DIMENSIONS = 902,
	CUDNN_ATTR_TENSOR_STRIDES = 903,
	CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,
	CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
	CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,
	CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
	CUDNN_ATTR_ENGINE_GLOBAL_INDEX = 1301,
	CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,
};
#endif

// F(name, the arguments of a call, what it returns, the parameters)
#define GOTRAIN_CUDNN_FUNCTIONS(F) \
	F(cudnnGetVersion, (), size_t) \
	F(cudnnGetErrorString, (status), const char *, cudnnStatus_t status) \
	F(cudnnGetLastErrorString, (text, length), void, char *text, size_t length) \
	F(cudnnCreate, (handle), cudnnStatus_t, cudnnHandle_t *handle) \
	F(cudnnDestroy, (handle), cudnnStatus_t, cudnnHandle_t handle) \
	F(cudnnSetStream, (handle, stream), cudnnStatus_t, cudnnHandle_t handle, cudaStream_t stream) \
	F(cudnnBackendCreateDescriptor, (type, descriptor), cudnnStatus_t, cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) \
	F(cudnnBackendDestroyDescriptor, (descriptor), cudnnStatus_t, cudnnBackendDescriptor_t descriptor) \
	F(cudnnBackendFinalize, (descriptor), cudnnStatus_t, cudnnBackendDescriptor_t descriptor) \
	F(cudnnBackendSetAttribute, (descriptor, name, type, count, values), cudnnStatus_t, cudnnBackendDescriptor_t descriptor, \
		cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void *values) \
	F(cudnnBackendGetAttribute, (descriptor, name, type, room, count, values), cudnnStatus_t, cudnnBackendDescriptor_t const descriptor, \
		cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *values) \
	F(cudnnBackendExecute, (handle, plan, pack), cudnnStatus_t, cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)

// The addresses of the functions in a library, and for each a call_NAME: Go cannot call an address.
struct gotrain_cudnn {
#define F(name, arguments, result, ...) result (*name)(__VA_ARGS__);
	GOTRAIN_CUDNN_FUNCTIONS(F)
#undef F
};
#define F(name, arguments, result, ...) static inline result call_##name(const struct gotrain_cudnn *api, ##__VA_ARGS__) { return api->name arguments; }
GOTRAIN_CUDNN_FUNCTIONS(F)
#undef F

enum { GOTRAIN_CUDNN_LOADED, GOTRAIN_CUDNN_NO_LIBRARY, GOTRAIN_CUDNN_NO_FUNCTION };

// Loads a library and looks up the functions. It tells what went wrong in text: the loader's message, or the name that the
// library lacks.
int gotrain_cudnn_load(struct gotrain_cudnn *api, const char *library, char *text, size_t length);

enum { GOTRAIN_CUDNN_FORWARD, GOTRAIN_CUDNN_BACKWARD_DATA, GOTRAIN_CUDNN_BACKWARD_WEIGHTS };

// A tensor of four dimensions, in the order of cuDNN: N C H W, of weights K C R S. It lies as N H W C.
struct gotrain_cudnn_tensor {
	int type; // CUDNN_DATA_
	int64_t dimensions[4];
};

// A convolution: what it is, and then the plan that was found for it.
struct gotrain_cudnn_conv {
	int pass;
	struct gotrain_cudnn_tensor x, w, y; // or their gradients
	int64_t stride, pad;
	int refused;          // a bit for each numerical note that an engine may not have
	int64_t limit;        // bytes of workspace

	cudnnBackendDescriptor_t plan; // NULL: there is none
	int64_t workspace, engine;

	cudnnBackendDescriptor_t made[96]; // what the plan was made of, and lives as long
	int count;

	const char *call; // that has failed
	int concerns;     // the descriptor's type, or the attribute, that it concerned
};

// Finds a plan: that of the first engine, in the order of cuDNN's heuristics, that does what is wanted.
cudnnStatus_t gotrain_cudnn_plan(const struct gotrain_cudnn *api, cudnnHandle_t handle, struct gotrain_cudnn_conv *c);

void gotrain_cudnn_release(const struct gotrain_cudnn *api, struct gotrain_cudnn_conv *c);

// Gives a stream a convolution. Addresses are numbers for Go.
cudnnStatus_t gotrain_cudnn_run(const struct gotrain_cudnn *api, cudnnHandle_t handle, struct gotrain_cudnn_conv *c, uintptr_t stream, uint64_t x, uint64_t w, uint64_t y, uint64_t workspace);

#endif
