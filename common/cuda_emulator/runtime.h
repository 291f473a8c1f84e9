// What every part of the emulator shares: the calling thread's device and last error.
#pragma once

#include "common/cuda_emulator/host_api.h"

namespace miniddp::emulator {

/// Remembers the error for cudaGetLastError and returns it.
cudaError_t fail(cudaError_t error);
/// The same after a line on stderr that says what is wrong, for mistakes whose code says too little.
cudaError_t fail(cudaError_t error, const char* format, ...) __attribute__((format(printf, 2, 3)));

int current_device();
void set_current_device(int device);

}  // namespace miniddp::emulator
