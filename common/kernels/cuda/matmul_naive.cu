// Rung 1. Every thread reads a whole row of a and a whole column of b from global memory: 2 reads for each multiplication.
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/matmul.h"

namespace miniddp::cuda {

namespace {

template <class T>
__global__ void multiply_naive(int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= n) return;
  // Rows are stepped through: a grid has at most 65,535 blocks in y.
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < m; row += int64_t{gridDim.y} * blockDim.y) {
    T sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
  }
}

}  // namespace

template <class T>
void matmul_naive(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c) {
  const dim3 grid(static_cast<unsigned>((n + 31) / 32), blocks_for(m, 8));
  launch(multiply_naive<T>, grid, dim3(32, 8), 0, stream, m, n, k, a, b, c);
}

template void matmul_naive(cudaStream_t, int64_t, int64_t, int64_t, const float*, const float*, float*);
template void matmul_naive(cudaStream_t, int64_t, int64_t, int64_t, const double*, const double*, double*);

}  // namespace miniddp::cuda
