// How blocks share out tensors that are many planes of equal size: (planes, size). For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/kernels/cuda/launch.h"

namespace miniddp::cuda {

/// x runs along a plane, y over planes: large planes get a block each, of small ones a block takes many. In a kernel:
///   for (int64_t plane = first_plane(); plane < planes; plane += plane_step())
///     for (int64_t i = threadIdx.x; i < size; i += blockDim.x) …
/// The plane's number is then known without a division for each element, and neighbours in memory are neighbours in a warp.
inline dim3 plane_block(int64_t size, unsigned threads = 256) {
  unsigned x = 1;
  while (x < threads && x < size) x *= 2;
  return {x, threads / x};
}
inline unsigned plane_grid(int64_t planes, dim3 block) { return blocks_for(planes, block.y); }

__device__ inline int64_t first_plane() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }
__device__ inline int64_t plane_step() { return int64_t{gridDim.x} * blockDim.y; }

}  // namespace miniddp::cuda
