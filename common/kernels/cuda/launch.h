// Launching kernels, and checking CUDA calls. One function instead of <<<...>>>, which only nvcc can read: so kernels and
// their host code compile with nvcc for GPUs and with any C++ compiler for the emulator.
//
//   __global__ void scale(int n, float factor, float* x);
//   launch(scale, blocks_for(n, 256), 256, 0, stream, n, factor, x);
//
// Inside a kernel, dynamic_shared<float>() is the shared memory that the launch asked for.
#pragma once

#include <cuda_runtime.h>
#include <dynamic_shared.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

#include "common/core/error.h"

namespace miniddp::cuda {

/// Throws DeviceError naming the call, the device and CUDA's code unless `status` is cudaSuccess.
inline void check_cuda(cudaError_t status, const char* what,
                       std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  int device = -1;
  cudaGetDevice(&device);
  cudaGetLastError();  // the error is reported here; the next check must not find it again
  throw DeviceError("{} failed on cuda:{}: {} ({}), at {}:{} in {}", what, device, cudaGetErrorName(status),
                    cudaGetErrorString(status), where.file_name(), where.line(), where.function_name());
}

/// The number of blocks of a launch, with the line that launches: an error names it.
struct GridSize {
  dim3 blocks;
  std::source_location where;

  GridSize(dim3 blocks_, std::source_location where_ = std::source_location::current()) : blocks(blocks_), where(where_) {}
  GridSize(unsigned x, std::source_location where_ = std::source_location::current()) : blocks(x), where(where_) {}
  GridSize(int x, std::source_location where_ = std::source_location::current())
      : blocks(static_cast<unsigned>(x)), where(where_) {}
};

/// Blocks of `threads` threads that cover n elements, at most `most`: kernels step through the rest (grid stride).
inline unsigned blocks_for(std::int64_t n, unsigned threads, unsigned most = 65535) {
  const std::int64_t blocks = (n + threads - 1) / threads;
  return blocks < most ? static_cast<unsigned>(blocks) : most;
}

/// Enqueues kernel(arguments...) on `stream`, which belongs to the current device, with `shared_bytes` of dynamic shared
/// memory a block. An empty grid is no work: nothing is launched (CUDA would refuse it). Throws DeviceError naming the
/// launching line, device, grid and block when CUDA refuses the launch.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), GridSize grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            Arguments&&... arguments) {
  const dim3 g = grid.blocks;
  if (g.x == 0 || g.y == 0 || g.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = g;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
  if (status == cudaSuccess) return;
  int device = -1;
  cudaGetDevice(&device);
  cudaGetLastError();
  throw DeviceError("kernel launch in {} ({}:{}) failed on cuda:{}, grid ({}, {}, {}), block ({}, {}, {}), {} shared bytes: {}",
                    grid.where.function_name(), grid.where.file_name(), grid.where.line(), device, g.x, g.y, g.z, block.x,
                    block.y, block.z, shared_bytes, cudaGetErrorName(status));
}

}  // namespace miniddp::cuda
