// Max-pooling without padding. T is float or double.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

/// x (planes, H, W) -> y (planes, OH, OW).
struct PoolShape {
  int64_t planes;
  int h, w, oh, ow, kernel, stride;
};

/// y, and the winner's place in its window, row-major (kernel <= 15). The first of equals wins, and NaN wins over all.
template <class T>
void max_pool2d_forward(cudaStream_t stream, const PoolShape& shape, const T* x, T* y, uint8_t* winner);
template <class T>
void max_pool2d_backward(cudaStream_t stream, const PoolShape& shape, const T* dy, const uint8_t* winner, T* dx);

}  // namespace miniddp::cuda
