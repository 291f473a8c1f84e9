#include "common/kernels/cuda/batch_norm.h"

#include <cmath>

#include "common/kernels/cuda/block_sum.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/planes.h"

namespace miniddp::cuda {

namespace {

constexpr unsigned threads = 256;

/// Where element i of a channel (counted over the batch) lies.
__device__ int64_t place_of(const NormShape& s, int64_t channel, int64_t i) {
  const int64_t n = i / s.size;
  return (n * s.channels + channel) * s.size + (i - n * s.size);
}

// A block for each channel. Two passes, mean first: the mean of squares minus the square of the mean would cancel.
template <class T>
__global__ void stats(NormShape s, const T* x, T* mean, T* var) {
  __shared__ double centre;
  const int64_t count = s.batch * s.size;
  for (int64_t c = blockIdx.x; c < s.channels; c += gridDim.x) {
    double total = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) total += x[place_of(s, c, i)];
    total = block_sum(total);
    if (threadIdx.x == 0) centre = total / static_cast<double>(count);
    __syncthreads();
    const double middle = centre;
    double squares = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const double distance = x[place_of(s, c, i)] - middle;
      squares += distance * distance;
    }
    squares = block_sum(squares);  // its barriers also keep the next channel's centre from coming too early
    if (threadIdx.x == 0) {
      mean[c] = static_cast<T>(middle);
      var[c] = static_cast<T>(squares / static_cast<double>(count));
    }
  }
}

template <class T>
__global__ void invert(int64_t channels, const T* var, double eps, T* invstd) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; c < channels; c += step)
    invstd[c] = static_cast<T>(1 / std::sqrt(static_cast<double>(var[c]) + eps));
}

template <class T>
__global__ void forward(NormShape s, const T* x, const T* mean, const T* invstd, const T* w, const T* b, T* y) {
  for (int64_t plane = first_plane(); plane < s.batch * s.channels; plane += plane_step()) {
    const int64_t c = plane % s.channels;
    const T centre = mean[c], slope = invstd[c] * w[c], bias = b[c];
    for (int64_t i = plane * s.size + threadIdx.x; i < (plane + 1) * s.size; i += blockDim.x) y[i] = (x[i] - centre) * slope + bias;
  }
}

template <class T>
__global__ void backward_reduce(NormShape s, const T* dy, const T* x, const T* mean, T* sum_dy, T* sum_dy_xmu) {
  const int64_t count = s.batch * s.size;
  for (int64_t c = blockIdx.x; c < s.channels; c += gridDim.x) {
    const double centre = mean[c];
    double total = 0, product = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const int64_t at = place_of(s, c, i);
      total += dy[at];
      product += dy[at] * (x[at] - centre);
    }
    total = block_sum(total);
    product = block_sum(product);
    if (threadIdx.x == 0) {
      sum_dy[c] = static_cast<T>(total);
      sum_dy_xmu[c] = static_cast<T>(product);
    }
  }
}

template <class T>
__global__ void backward_input(NormShape s, const T* dy, const T* x, const T* mean, const T* invstd, const T* w, const T* sum_dy,
                               const T* sum_dy_xmu, T share, T* dx) {
  for (int64_t plane = first_plane(); plane < s.batch * s.channels; plane += plane_step()) {
    const int64_t c = plane % s.channels;
    const T centre = mean[c], slope = invstd[c] * invstd[c] * sum_dy_xmu[c] * share, average = sum_dy[c] * share;
    const T factor = invstd[c] * w[c];
    for (int64_t i = plane * s.size + threadIdx.x; i < (plane + 1) * s.size; i += blockDim.x)
      dx[i] = (dy[i] - average - (x[i] - centre) * slope) * factor;
  }
}

}  // namespace

template <class T>
void batch_norm_stats(cudaStream_t stream, NormShape shape, const T* x, T* mean, T* var) {
  launch(stats<T>, blocks_for(shape.channels, 1), threads, 0, stream, shape, x, mean, var);
}

template <class T>
void inverse_std(cudaStream_t stream, int64_t channels, const T* var, double eps, T* invstd) {
  launch(invert<T>, blocks_for(channels, threads), threads, 0, stream, channels, var, eps, invstd);
}

template <class T>
void batch_norm_forward(cudaStream_t stream, NormShape shape, const T* x, const T* mean, const T* invstd, const T* w, const T* b, T* y) {
  const dim3 block = plane_block(shape.size);
  launch(forward<T>, plane_grid(shape.batch * shape.channels, block), block, 0, stream, shape, x, mean, invstd, w, b, y);
}

template <class T>
void batch_norm_backward_reduce(cudaStream_t stream, NormShape shape, const T* dy, const T* x, const T* mean, T* sum_dy, T* sum_dy_xmu) {
  launch(backward_reduce<T>, blocks_for(shape.channels, 1), threads, 0, stream, shape, dy, x, mean, sum_dy, sum_dy_xmu);
}

template <class T>
void batch_norm_backward_input(cudaStream_t stream, NormShape shape, const T* dy, const T* x, const T* mean, const T* invstd,
                               const T* w, const T* sum_dy, const T* sum_dy_xmu, double count, T* dx) {
  const dim3 block = plane_block(shape.size);
  launch(backward_input<T>, plane_grid(shape.batch * shape.channels, block), block, 0, stream, shape, dy, x, mean, invstd, w, sum_dy,
         sum_dy_xmu, static_cast<T>(1 / count), dx);
}

#define INSTANTIATE(T)                                                                                                       \
  template void batch_norm_stats(cudaStream_t, NormShape, const T*, T*, T*);                                                 \
  template void inverse_std(cudaStream_t, int64_t, const T*, double, T*);                                                    \
  template void batch_norm_forward(cudaStream_t, NormShape, const T*, const T*, const T*, const T*, const T*, T*);           \
  template void batch_norm_backward_reduce(cudaStream_t, NormShape, const T*, const T*, const T*, T*, T*);                   \
  template void batch_norm_backward_input(cudaStream_t, NormShape, const T*, const T*, const T*, const T*, const T*, const T*, \
                                          const T*, double, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace miniddp::cuda
