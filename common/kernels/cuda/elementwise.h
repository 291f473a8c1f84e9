// Kernels that compute each element by itself. All take the stream first; pointers are in the stream's device's memory.
// T is float or double unless said otherwise. Outputs may be inputs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/core/dtype.h"

namespace miniddp::cuda {

/// out (n) = value. T: float, double, int64_t or uint8_t.
template <class T>
void fill(cudaStream_t stream, int64_t n, T value, T* out);

/// out (n) = a + b, a * b, a * factor.
template <class T>
void add(cudaStream_t stream, int64_t n, const T* a, const T* b, T* out);
template <class T>
void mul(cudaStream_t stream, int64_t n, const T* a, const T* b, T* out);
template <class T>
void scale(cudaStream_t stream, int64_t n, const T* a, T factor, T* out);

/// y (n) += alpha * x.
template <class T>
void axpy(cudaStream_t stream, int64_t n, T alpha, const T* x, T* y);

/// y = max(x, 0), NaN stays NaN; dx = dy where y > 0, else 0.
template <class T>
void relu_forward(cudaStream_t stream, int64_t n, const T* x, T* y);
template <class T>
void relu_backward(cudaStream_t stream, int64_t n, const T* dy, const T* y, T* dx);

/// y (planes, size) = x * mask (planes): each mask element scales the `size` neighbours of its plane.
template <class T>
void scale_planes(cudaStream_t stream, int64_t planes, int64_t size, const T* x, const T* mask, T* y);

/// Converts n elements. Throws Error for pairs that Kernels::cast does not name.
void cast(cudaStream_t stream, int64_t n, DType from, const void* in, DType to, void* out);

}  // namespace miniddp::cuda
