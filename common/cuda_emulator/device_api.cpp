// Errors, devices, peers.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/cuda_emulator/memory.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/settings.h"
#include "common/cuda_emulator/stream.h"

namespace miniddp::emulator {
namespace {
thread_local cudaError_t last_error = cudaSuccess;
thread_local int device = 0;

bool exists(int index) { return index >= 0 && index < settings().devices; }
}  // namespace

cudaError_t fail(cudaError_t error) { return last_error = error; }

cudaError_t fail(cudaError_t error, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "emulator: %s: %s\n", cudaGetErrorName(error), text);
  return fail(error);
}

int current_device() { return device; }
void set_current_device(int index) { device = index; }

}  // namespace miniddp::emulator

using namespace miniddp::emulator;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define NAME(e) \
  case e:       \
    return #e;
    NAME(cudaSuccess)
    NAME(cudaErrorInvalidValue)
    NAME(cudaErrorMemoryAllocation)
    NAME(cudaErrorCudartUnloading)
    NAME(cudaErrorInvalidConfiguration)
    NAME(cudaErrorInvalidMemcpyDirection)
    NAME(cudaErrorNoDevice)
    NAME(cudaErrorInvalidDevice)
    NAME(cudaErrorPeerAccessUnsupported)
    NAME(cudaErrorInvalidResourceHandle)
    NAME(cudaErrorIllegalState)
    NAME(cudaErrorNotReady)
    NAME(cudaErrorIllegalAddress)
    NAME(cudaErrorPeerAccessAlreadyEnabled)
    NAME(cudaErrorPeerAccessNotEnabled)
    NAME(cudaErrorHostMemoryAlreadyRegistered)
    NAME(cudaErrorHostMemoryNotRegistered)
    NAME(cudaErrorLaunchFailure)
    NAME(cudaErrorNotSupported)
    NAME(cudaErrorStreamCaptureUnsupported)
    NAME(cudaErrorStreamCaptureInvalidated)
    NAME(cudaErrorStreamCaptureMerge)
    NAME(cudaErrorStreamCaptureUnmatched)
    NAME(cudaErrorStreamCaptureUnjoined)
    NAME(cudaErrorStreamCaptureIsolation)
    NAME(cudaErrorStreamCaptureImplicit)
    NAME(cudaErrorCapturedEvent)
    NAME(cudaErrorUnknown)
#undef NAME
  }
  return "unrecognized error code";
}

/// CUDA's sentences are its own; here the name says it, and the emulator prints what it knows when it happens.
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : cudaGetErrorName(error);
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;
  return *count ? cudaSuccess : fail(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int index) {
  if (!exists(index)) return fail(cudaErrorInvalidDevice);
  device = index;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  if (!exists(device)) return fail(cudaErrorNoDevice);
  *index = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (!exists(index)) return fail(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated GPU");
  properties->totalGlobalMem = settings().memory_bytes;
  properties->pciBusID = index;
  struct Copy {
    int* to;
    cudaDeviceAttr attribute;
  };
  int shared = 0;
  int optin = 0;
  for (const Copy copy : {Copy{&shared, cudaDevAttrMaxSharedMemoryPerBlock},
                          {&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin},
                          {&properties->warpSize, cudaDevAttrWarpSize},
                          {&properties->maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock},
                          {&properties->multiProcessorCount, cudaDevAttrMultiProcessorCount},
                          {&properties->maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor},
                          {&properties->memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth},
                          {&properties->l2CacheSize, cudaDevAttrL2CacheSize},
                          {&properties->major, cudaDevAttrComputeCapabilityMajor},
                          {&properties->minor, cudaDevAttrComputeCapabilityMinor}})
    cudaDeviceGetAttribute(copy.to, copy.attribute, index);
  properties->sharedMemPerBlock = static_cast<std::size_t>(shared);
  properties->sharedMemPerBlockOptin = static_cast<std::size_t>(optin);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  if (!exists(index)) return fail(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = settings().workers;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    case cudaDevAttrComputeCapabilityMinor:
    case cudaDevAttrClockRate:  // an emulated GPU has no speed: nobody shall compute with one
    case cudaDevAttrMemoryClockRate:
    case cudaDevAttrGlobalMemoryBusWidth:
    case cudaDevAttrL2CacheSize:
      *value = 0;
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int index) {
  if (!exists(index)) return fail(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0", index);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (!exists(device)) return fail(cudaErrorNoDevice);
  const auto streams = streams_of(device);
  for (const auto& stream : streams)
    if (auto error = refuse_while_capturing(*stream)) return error;
  for (const auto& stream : streams) stream->wait_all();
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int index, int peer) {
  if (!exists(index) || !exists(peer)) return fail(cudaErrorInvalidDevice);
  *can = index != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (!exists(peer) || peer == device) return fail(cudaErrorInvalidDevice);
  if (flags != 0) return fail(cudaErrorInvalidValue);
  return enable_peer(device, peer) ? cudaSuccess : fail(cudaErrorPeerAccessAlreadyEnabled);
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (!exists(peer) || peer == device) return fail(cudaErrorInvalidDevice);
  return disable_peer(device, peer) ? cudaSuccess : fail(cudaErrorPeerAccessNotEnabled);
}
