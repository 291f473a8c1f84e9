// Sums over the threads of a block, in a fixed order: the same bits in every run. For .cu files.
#pragma once

#include <cuda_runtime.h>

namespace miniddp::cuda {

/// The sum over a warp, in every lane. All 32 lanes must call it.
template <class T>
__device__ T warp_sum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// The sum over a block of whole warps (at most 32), valid in the first warp. All threads must call it; it may be called again.
template <class T>
__device__ T block_sum(T value) {
  __shared__ T of_warp[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = warp_sum(value);
  __syncthreads();  // the call before may still be reading
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  if (warp != 0) return value;
  return warp_sum(lane < warps ? of_warp[lane] : T{0});
}

}  // namespace miniddp::cuda
