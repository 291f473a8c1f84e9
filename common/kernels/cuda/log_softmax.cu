#include "common/kernels/cuda/log_softmax.h"

#include <cmath>

#include "common/kernels/cuda/block_sum.h"
#include "common/kernels/cuda/launch.h"

namespace miniddp::cuda {

namespace {

constexpr int rows_per_block = 4;  // a warp for each

template <class T>
__device__ T warp_max(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// The lanes of a warp share a row and exchange what they found by shuffles: no shared memory, no barrier.
template <class T>
__global__ void forward(int64_t rows, int64_t classes, const T* x, T* y) {
  // BEGIN SOLUTION 01.6 log-softmax kernel
  const int64_t step = int64_t{gridDim.x} * rows_per_block;
  for (int64_t row = int64_t{blockIdx.x} * rows_per_block + threadIdx.y; row < rows; row += step) {
    const T* in = x + row * classes;
    T largest = -INFINITY;  // it is subtracted first, so that exp cannot overflow
    for (int64_t c = threadIdx.x; c < classes; c += 32) largest = in[c] > largest ? in[c] : largest;
    largest = warp_max(largest);
    T total = 0;
    for (int64_t c = threadIdx.x; c < classes; c += 32) total += std::exp(in[c] - largest);
    const T log_total = std::log(warp_sum(total));
    for (int64_t c = threadIdx.x; c < classes; c += 32) y[row * classes + c] = in[c] - largest - log_total;
  }
  // END SOLUTION
}

template <class T>
__global__ void backward(int64_t rows, int64_t classes, const T* dy, const T* y, T* dx) {
  const int64_t step = int64_t{gridDim.x} * rows_per_block;
  for (int64_t row = int64_t{blockIdx.x} * rows_per_block + threadIdx.y; row < rows; row += step) {
    const T* gradient = dy + row * classes;
    T total = 0;
    for (int64_t c = threadIdx.x; c < classes; c += 32) total += gradient[c];
    total = warp_sum(total);
    for (int64_t c = threadIdx.x; c < classes; c += 32)
      dx[row * classes + c] = gradient[c] - std::exp(y[row * classes + c]) * total;
  }
}

}  // namespace

template <class T>
void log_softmax_forward(cudaStream_t stream, int64_t rows, int64_t classes, const T* x, T* y) {
  launch(forward<T>, blocks_for(rows, rows_per_block), dim3(32, rows_per_block), 0, stream, rows, classes, x, y);
}

template <class T>
void log_softmax_backward(cudaStream_t stream, int64_t rows, int64_t classes, const T* dy, const T* y, T* dx) {
  launch(backward<T>, blocks_for(rows, rows_per_block), dim3(32, rows_per_block), 0, stream, rows, classes, dy, y, dx);
}

#define INSTANTIATE(T)                                                                        \
  template void log_softmax_forward(cudaStream_t, int64_t, int64_t, const T*, T*);            \
  template void log_softmax_backward(cudaStream_t, int64_t, int64_t, const T*, const T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace miniddp::cuda
