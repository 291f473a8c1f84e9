// The same assertions, compiled against the stand-in headers and, where a CUDA toolkit is installed, against the real ones:
// so signatures and values cannot drift apart. Compiling is the test.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>

// f can be called with these arguments, and returns this type.
#define SIGNATURE(f, ...) static_assert(static_cast<__VA_ARGS__>(&f) != nullptr || true)

SIGNATURE(cudaGetErrorName, const char* (*)(cudaError_t));
SIGNATURE(cudaGetLastError, cudaError_t (*)());
SIGNATURE(cudaSetDevice, cudaError_t (*)(int));
SIGNATURE(cudaGetDeviceCount, cudaError_t (*)(int*));
SIGNATURE(cudaDeviceGetAttribute, cudaError_t (*)(int*, cudaDeviceAttr, int));
SIGNATURE(cudaDeviceCanAccessPeer, cudaError_t (*)(int*, int, int));
SIGNATURE(cudaDeviceEnablePeerAccess, cudaError_t (*)(int, unsigned));
SIGNATURE(cudaMalloc, cudaError_t (*)(void**, std::size_t));
SIGNATURE(cudaFree, cudaError_t (*)(void*));
SIGNATURE(cudaMallocAsync, cudaError_t (*)(void**, std::size_t, cudaStream_t));
SIGNATURE(cudaFreeAsync, cudaError_t (*)(void*, cudaStream_t));
SIGNATURE(cudaMallocHost, cudaError_t (*)(void**, std::size_t));
SIGNATURE(cudaHostAlloc, cudaError_t (*)(void**, std::size_t, unsigned));
SIGNATURE(cudaHostRegister, cudaError_t (*)(void*, std::size_t, unsigned));
SIGNATURE(cudaDeviceGetDefaultMemPool, cudaError_t (*)(cudaMemPool_t*, int));
SIGNATURE(cudaMemPoolSetAttribute, cudaError_t (*)(cudaMemPool_t, cudaMemPoolAttr, void*));
SIGNATURE(cudaPointerGetAttributes, cudaError_t (*)(cudaPointerAttributes*, const void*));
SIGNATURE(cudaMemcpy, cudaError_t (*)(void*, const void*, std::size_t, cudaMemcpyKind));
SIGNATURE(cudaMemcpyAsync, cudaError_t (*)(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t));
SIGNATURE(cudaMemcpy2DAsync, cudaError_t (*)(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t,
                                             cudaMemcpyKind, cudaStream_t));
SIGNATURE(cudaMemcpyPeerAsync, cudaError_t (*)(void*, int, const void*, int, std::size_t, cudaStream_t));
SIGNATURE(cudaMemsetAsync, cudaError_t (*)(void*, int, std::size_t, cudaStream_t));
SIGNATURE(cudaStreamCreateWithFlags, cudaError_t (*)(cudaStream_t*, unsigned));
SIGNATURE(cudaStreamWaitEvent, cudaError_t (*)(cudaStream_t, cudaEvent_t, unsigned));
SIGNATURE(cudaLaunchHostFunc, cudaError_t (*)(cudaStream_t, cudaHostFn_t, void*));
SIGNATURE(cudaEventCreateWithFlags, cudaError_t (*)(cudaEvent_t*, unsigned));
SIGNATURE(cudaEventRecord, cudaError_t (*)(cudaEvent_t, cudaStream_t));
SIGNATURE(cudaEventElapsedTime, cudaError_t (*)(float*, cudaEvent_t, cudaEvent_t));
SIGNATURE(cudaStreamBeginCapture, cudaError_t (*)(cudaStream_t, cudaStreamCaptureMode));
SIGNATURE(cudaStreamEndCapture, cudaError_t (*)(cudaStream_t, cudaGraph_t*));
SIGNATURE(cudaStreamIsCapturing, cudaError_t (*)(cudaStream_t, cudaStreamCaptureStatus*));
SIGNATURE(cudaGraphInstantiate, cudaError_t (*)(cudaGraphExec_t*, cudaGraph_t, unsigned long long));
SIGNATURE(cudaGraphLaunch, cudaError_t (*)(cudaGraphExec_t, cudaStream_t));
SIGNATURE(cudaGraphGetNodes, cudaError_t (*)(cudaGraph_t, cudaGraphNode_t*, std::size_t*));

SIGNATURE(cublasCreate, cublasStatus_t (*)(cublasHandle_t*));
SIGNATURE(cublasSetStream, cublasStatus_t (*)(cublasHandle_t, cudaStream_t));
SIGNATURE(cublasSetMathMode, cublasStatus_t (*)(cublasHandle_t, cublasMath_t));
SIGNATURE(cublasSgemm, cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const float*,
                                          const float*, int, const float*, int, const float*, float*, int));
SIGNATURE(cublasDgemm, cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                          const double*, const double*, int, const double*, int, const double*, double*,
                                          int));
SIGNATURE(cublasSgemmStridedBatched,
          cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const float*, const float*,
                             int, long long, const float*, int, long long, const float*, float*, int, long long, int));
SIGNATURE(cublasSgemv, cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, int, int, const float*, const float*, int,
                                          const float*, int, const float*, float*, int));

SIGNATURE(ncclGetUniqueId, ncclResult_t (*)(ncclUniqueId*));
SIGNATURE(ncclCommInitRank, ncclResult_t (*)(ncclComm_t*, int, ncclUniqueId, int));
SIGNATURE(ncclCommInitAll, ncclResult_t (*)(ncclComm_t*, int, const int*));
SIGNATURE(ncclCommAbort, ncclResult_t (*)(ncclComm_t));
SIGNATURE(ncclCommGetAsyncError, ncclResult_t (*)(ncclComm_t, ncclResult_t*));
SIGNATURE(ncclCommUserRank, ncclResult_t (*)(const ncclComm_t, int*));
SIGNATURE(ncclGetLastError, const char* (*)(ncclComm_t));
SIGNATURE(ncclGroupEnd, ncclResult_t (*)());
SIGNATURE(ncclAllReduce, ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                          cudaStream_t));
SIGNATURE(ncclReduce, ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                                       cudaStream_t));
SIGNATURE(ncclBroadcast, ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));
SIGNATURE(ncclReduceScatter, ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                              cudaStream_t));
SIGNATURE(ncclAllGather, ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t));
SIGNATURE(ncclSend, ncclResult_t (*)(const void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));
SIGNATURE(ncclRecv, ncclResult_t (*)(void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t));

#define VALUE(name, value) static_assert(static_cast<int>(name) == (value))

VALUE(cudaErrorInvalidValue, 1);
VALUE(cudaErrorMemoryAllocation, 2);
VALUE(cudaErrorCudartUnloading, 4);
VALUE(cudaErrorInvalidConfiguration, 9);
VALUE(cudaErrorInvalidMemcpyDirection, 21);
VALUE(cudaErrorNoDevice, 100);
VALUE(cudaErrorInvalidDevice, 101);
VALUE(cudaErrorPeerAccessUnsupported, 217);
VALUE(cudaErrorInvalidResourceHandle, 400);
VALUE(cudaErrorIllegalState, 401);
VALUE(cudaErrorNotReady, 600);
VALUE(cudaErrorIllegalAddress, 700);
VALUE(cudaErrorPeerAccessAlreadyEnabled, 704);
VALUE(cudaErrorPeerAccessNotEnabled, 705);
VALUE(cudaErrorHostMemoryAlreadyRegistered, 712);
VALUE(cudaErrorHostMemoryNotRegistered, 713);
VALUE(cudaErrorLaunchFailure, 719);
VALUE(cudaErrorNotSupported, 801);
VALUE(cudaErrorStreamCaptureUnsupported, 900);
VALUE(cudaErrorStreamCaptureInvalidated, 901);
VALUE(cudaErrorStreamCaptureMerge, 902);
VALUE(cudaErrorStreamCaptureUnmatched, 903);
VALUE(cudaErrorStreamCaptureUnjoined, 904);
VALUE(cudaErrorStreamCaptureIsolation, 905);
VALUE(cudaErrorStreamCaptureImplicit, 906);
VALUE(cudaErrorCapturedEvent, 907);
VALUE(cudaErrorUnknown, 999);
VALUE(cudaMemcpyHostToDevice, 1);
VALUE(cudaMemcpyDeviceToHost, 2);
VALUE(cudaMemcpyDeviceToDevice, 3);
VALUE(cudaMemcpyDefault, 4);
VALUE(cudaMemoryTypeUnregistered, 0);
VALUE(cudaMemoryTypeHost, 1);
VALUE(cudaMemoryTypeDevice, 2);
VALUE(cudaStreamNonBlocking, 1);
VALUE(cudaEventDisableTiming, 2);
VALUE(cudaFuncAttributeMaxDynamicSharedMemorySize, 8);
VALUE(cudaDevAttrMultiProcessorCount, 16);
VALUE(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97);
VALUE(cudaDevAttrMemoryPoolsSupported, 115);
VALUE(cudaMemPoolAttrReleaseThreshold, 4);
VALUE(cudaMemPoolAttrUsedMemHigh, 8);
VALUE(cudaStreamCaptureModeThreadLocal, 1);
VALUE(cudaStreamCaptureModeRelaxed, 2);
VALUE(cudaStreamCaptureStatusInvalidated, 2);
VALUE(cudaGraphInstantiateFlagAutoFreeOnLaunch, 1);
VALUE(CUBLAS_STATUS_NOT_INITIALIZED, 1);
VALUE(CUBLAS_STATUS_INVALID_VALUE, 7);
VALUE(CUBLAS_STATUS_EXECUTION_FAILED, 13);
VALUE(CUBLAS_OP_T, 1);
VALUE(CUBLAS_POINTER_MODE_DEVICE, 1);
VALUE(CUBLAS_PEDANTIC_MATH, 2);
VALUE(CUBLAS_TF32_TENSOR_OP_MATH, 3);
VALUE(ncclUnhandledCudaError, 1);
VALUE(ncclSystemError, 2);
VALUE(ncclInvalidArgument, 4);
VALUE(ncclInvalidUsage, 5);
VALUE(ncclRemoteError, 6);
VALUE(ncclInProgress, 7);
VALUE(ncclSum, 0);
VALUE(ncclMax, 2);
VALUE(ncclAvg, 4);
VALUE(ncclInt64, 4);
VALUE(ncclFloat16, 6);
VALUE(ncclFloat32, 7);
VALUE(ncclFloat64, 8);
VALUE(ncclBfloat16, 9);

static_assert(sizeof(ncclUniqueId) == 128);
static_assert(sizeof(__half) == 2 && sizeof(__nv_bfloat16) == 2);
static_assert(sizeof(float4) == 16 && alignof(float4) == 16 && alignof(float2) == 8 && alignof(int4) == 16);
