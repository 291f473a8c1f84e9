// Rung 3: register tiles (register_tiles.h), for plain matrices.
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/matmul.h"
#include "common/kernels/cuda/register_tiles.h"

namespace miniddp::cuda {

namespace {

/// Element (i, k) lies at data[i * stride + k * k_stride]; one of the strides is 1.
template <class T, bool k_first_>
struct LoadMatrix {
  static constexpr bool k_first = k_first_;
  struct Place {
    const T* at;
    bool inside;
  };
  const T* data;
  int64_t stride, k_stride;
  int count;

  __device__ Place place(int i) const { return {data + i * stride, i < count}; }
  __device__ T load(const Place& place, int k) const { return place.inside ? place.at[k * k_stride] : T{0}; }
};

template <class T>
struct StoreMatrix {
  int rows, columns;
  const T* bias;  // (columns), or null
  T* c;

  __device__ void operator()(int row, int column, T value) const {
    if (row < rows && column < columns) c[int64_t{row} * columns + column] = value + (bias != nullptr ? bias[column] : T{0});
  }
};

template <class T, class Tiles, class LoadA, class LoadB>
__global__ void multiply_registers(int row_tiles, int k, LoadA a, LoadB b, StoreMatrix<T> store) {
  for (int tile = static_cast<int>(blockIdx.y); tile < row_tiles; tile += static_cast<int>(gridDim.y))
    multiply_tile<T, Tiles>(tile * Tiles::BM, static_cast<int>(blockIdx.x) * Tiles::BN, 0, k, a, b, store);
}

template <class T, class Tiles, bool a_k_first, bool b_k_first>
void launch_multiply(cudaStream_t stream, int m, int n, int k, const T* a, const T* b, const T* bias, T* c) {
  const LoadMatrix<T, a_k_first> load_a{a, a_k_first ? k : 1, a_k_first ? 1 : m, m};
  const LoadMatrix<T, b_k_first> load_b{b, b_k_first ? k : 1, b_k_first ? 1 : n, n};
  const int row_tiles = (m + Tiles::BM - 1) / Tiles::BM, column_tiles = (n + Tiles::BN - 1) / Tiles::BN;
  launch(multiply_registers<T, Tiles, LoadMatrix<T, a_k_first>, LoadMatrix<T, b_k_first>>,
         dim3(static_cast<unsigned>(column_tiles), blocks_for(row_tiles, 1)), Tiles::threads, 0, stream, row_tiles, k, load_a, load_b,
         StoreMatrix<T>{m, n, bias, c});
}

template <class T, class Tiles>
void choose_loaders(cudaStream_t stream, int m, int n, int k, Operand<T> a, Operand<T> b, const T* bias, T* c) {
  const auto go = !a.transposed ? (b.transposed ? launch_multiply<T, Tiles, true, true> : launch_multiply<T, Tiles, true, false>)
                                : (b.transposed ? launch_multiply<T, Tiles, false, true> : launch_multiply<T, Tiles, false, false>);
  go(stream, m, n, k, a.data, b.data, bias, c);
}

}  // namespace

template <class T>
void matmul_registers(cudaStream_t stream, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, const T* bias, T* c) {
  constexpr int64_t most = int64_t{1} << 30;
  check<ShapeError>(m < most && n < most && k < most, "expected matrices with less than 2^30 rows and columns, found ({}, {}) times ({}, {})",
                    m, k, k, n);
  const auto go = m <= 16 ? choose_loaders<T, TilesOf16> : m <= 32 ? choose_loaders<T, TilesOf32> : choose_loaders<T, TilesOf64>;
  go(stream, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), a, b, bias, c);
}

template void matmul_registers(cudaStream_t, int64_t, int64_t, int64_t, Operand<float>, Operand<float>, const float*, float*);
template void matmul_registers(cudaStream_t, int64_t, int64_t, int64_t, Operand<double>, Operand<double>, const double*, double*);

}  // namespace miniddp::cuda
