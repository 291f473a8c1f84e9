// The block's dynamic shared memory, in an emulated build. nvcc's twin is common/kernels/cuda/nvcc/dynamic_shared.h.
#pragma once

#include <cuda_runtime.h>

/// The bytes that the launch asked for, as T*. The same address in all threads of a block.
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(miniddp::emulator::dynamic_shared());
}
