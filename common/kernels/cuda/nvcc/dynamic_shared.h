// The block's dynamic shared memory, under nvcc. The emulator's twin is common/cuda_emulator/include/dynamic_shared.h;
// the build puts one of the two on the include path.
#pragma once

#include <cuda_runtime.h>

/// The bytes that the launch asked for, as T*. The same address in all threads of a block.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}
