// The host's side of a GPU: which device the calling thread talks to, its streams, its cuBLAS handles.
//
// Every device has one compute stream that all threads share: what the host enqueues first runs first, so tensors need no
// events on their own device. A communication stream stands beside it, for copies and collectives that should overlap.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <source_location>
#include <string>

#include "common/kernels/cuda/nll_loss.h"

namespace miniddp::cuda {

/// Makes `device` the calling thread's device for a scope. CUDA keeps it for each thread, and new threads start with 0.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device, std::source_location where = std::source_location::current());
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

/// What belongs to one device. Made at its first use, never destroyed: tensors in static variables may outlive everything else.
struct DeviceState {
  int device;
  cudaStream_t compute;
  cudaStream_t communication;
  TargetReport* report;   // pinned: kernels write to it, the host reads it after synchronising
  uint64_t* later_calls;  // on the device: see dropout_mask(); 0 unless a captured step runs again
};

/// Throws DeviceError if there is no such device.
DeviceState& device_state(int device);
inline cudaStream_t compute_stream(int device) { return device_state(device).compute; }
inline cudaStream_t communication_stream(int device) { return device_state(device).communication; }

/// The calling thread's handle for a device, bound to its compute stream. Handles must not be shared between threads.
cublasHandle_t cublas_handle(int device);

/// Waits for the compute stream, then throws what kernels found meanwhile.
void wait_for_compute(int device);

/// GPUs that can be used, and if there are none, why.
struct DeviceCount {
  int count = 0;
  std::string reason;
};
const DeviceCount& count_devices();

}  // namespace miniddp::cuda
