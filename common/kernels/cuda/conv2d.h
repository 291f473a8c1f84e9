// Convolution as a matrix product, in two ways (chapters/01_single_device/CUDA.md explains both):
// - implicit: the product's loaders find the patches' pixels in the image themselves (few channels);
// - im2col:   the patches are written out as a matrix, and cuBLAS multiplies (many channels).
// Square kernels, strides and zero padding. T is float or double.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

/// x (N, C, H, W), w (O, C, K, K), y (N, O, OH, OW).
struct ConvShape {
  int64_t n;
  int c, h, w, o, oh, ow, k, stride, padding;

  __host__ __device__ int patch() const { return c * k * k; }    // values under the kernel at one place
  __host__ __device__ int places() const { return oh * ow; }     // of the kernel on one image
  __host__ __device__ int pixels() const { return h * w; }
  int64_t x_size() const { return int64_t{c} * h * w; }           // elements of one sample of x
  int64_t y_size() const { return int64_t{o} * oh * ow; }         // … of y
  int64_t w_size() const { return int64_t{o} * c * k * k; }
  ConvShape with_batch(int64_t batch) const {
    ConvShape other = *this;
    other.n = batch;
    return other;
  }
};

/// Implicit. `b` (O) may be null. Batches so large that they need more than 2^30 columns go in pieces.
template <class T>
void conv2d_implicit_forward(cudaStream_t stream, const ConvShape& shape, const T* x, const T* w, const T* b, T* y);
template <class T>
void conv2d_implicit_backward_input(cudaStream_t stream, const ConvShape& shape, const T* dy, const T* w, T* dx);
/// The sum over samples and places is split into `splits` parts (split_count() proposes how many); parts (splits, O, C, K, K).
/// Add them up with sum_parts(). At most 2^30 / places samples.
template <class T>
void conv2d_implicit_backward_weight(cudaStream_t stream, const ConvShape& shape, const T* dy, const T* x, int splits, T* parts);
int split_count(const ConvShape& shape);
/// Samples that one implicit call may take.
int64_t most_samples(const ConvShape& shape);

/// columns (N, C * K * K, OH * OW): column p of sample n is the patch under place p. At most 2^30 elements.
template <class T>
void im2col(cudaStream_t stream, const ConvShape& shape, const T* x, T* columns);
/// Its transpose: dx (N, C, H, W), every pixel the sum over the patches that it is in.
template <class T>
void col2im(cudaStream_t stream, const ConvShape& shape, const T* columns, T* dx);

/// y (N, C, size) += b (C).
template <class T>
void add_channel_bias(cudaStream_t stream, int64_t batch, int64_t channels, int64_t size, const T* b, T* y);

}  // namespace miniddp::cuda
