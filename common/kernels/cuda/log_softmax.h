// Log-softmax over rows. T is float or double.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

/// y (rows, classes) = x - log(sum(exp(x))) of each row.
template <class T>
void log_softmax_forward(cudaStream_t stream, int64_t rows, int64_t classes, const T* x, T* y);
/// dx = dy - exp(y) * sum(dy) of each row.
template <class T>
void log_softmax_backward(cudaStream_t stream, int64_t rows, int64_t classes, const T* dy, const T* y, T* dx);

}  // namespace miniddp::cuda
