// BatchNorm's four pieces. Sums are in float64: they hold however many elements there are. T is float or double.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

/// x (N, C, size): `size` is the product of the dimensions after the channels.
struct NormShape {
  int64_t batch, channels, size;
};

/// mean (C) and biased variance (C).
template <class T>
void batch_norm_stats(cudaStream_t stream, NormShape shape, const T* x, T* mean, T* var);
/// invstd (channels) = 1 / sqrt(var + eps).
template <class T>
void inverse_std(cudaStream_t stream, int64_t channels, const T* var, double eps, T* invstd);
/// y = (x - mean) * invstd * w + b.
template <class T>
void batch_norm_forward(cudaStream_t stream, NormShape shape, const T* x, const T* mean, const T* invstd, const T* w, const T* b, T* y);
/// sum_dy (C), and sum_dy_xmu (C) = sum of dy * (x - mean).
template <class T>
void batch_norm_backward_reduce(cudaStream_t stream, NormShape shape, const T* dy, const T* x, const T* mean, T* sum_dy, T* sum_dy_xmu);
/// dx, as Kernels::batch_norm_backward_input defines it.
template <class T>
void batch_norm_backward_input(cudaStream_t stream, NormShape shape, const T* dy, const T* x, const T* mean, const T* invstd,
                               const T* w, const T* sum_dy, const T* sum_dy_xmu, double count, T* dx);

}  // namespace miniddp::cuda
