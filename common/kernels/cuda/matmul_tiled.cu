// Rung 2. A block of 16 x 16 threads loads a tile of a and a tile of b into shared memory, multiplies them and goes on to
// the next pair. Each element that was read from global memory is used 16 times.
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/matmul.h"

namespace miniddp::cuda {

namespace {

constexpr int tile = 16;

template <class T>
__global__ void multiply_tiled(int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c) {
  // BEGIN SOLUTION 01.5 matrix product with tiles
  __shared__ T a_tile[tile][tile];
  __shared__ T b_tile[tile][tile];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t column = int64_t{blockIdx.x} * tile + x;
  for (int64_t first_row = int64_t{blockIdx.y} * tile; first_row < m; first_row += int64_t{gridDim.y} * tile) {
    const int64_t row = first_row + y;
    T sum = 0;
    for (int64_t start = 0; start < k; start += tile) {
      a_tile[y][x] = row < m && start + x < k ? a[row * k + start + x] : T{0};
      b_tile[y][x] = start + y < k && column < n ? b[(start + y) * n + column] : T{0};
      __syncthreads();  // the tiles are complete
      for (int i = 0; i < tile; ++i) sum += a_tile[y][i] * b_tile[i][x];
      __syncthreads();  // nobody reads them any more
    }
    if (row < m && column < n) c[row * n + column] = sum;
  }
  // END SOLUTION
}

}  // namespace

template <class T>
void matmul_tiled(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c) {
  const dim3 grid(static_cast<unsigned>((n + tile - 1) / tile), blocks_for(m, tile));
  launch(multiply_tiled<T>, grid, dim3(tile, tile), 0, stream, m, n, k, a, b, c);
}

template void matmul_tiled(cudaStream_t, int64_t, int64_t, int64_t, const float*, const float*, float*);
template void matmul_tiled(cudaStream_t, int64_t, int64_t, int64_t, const double*, const double*, double*);

}  // namespace miniddp::cuda
