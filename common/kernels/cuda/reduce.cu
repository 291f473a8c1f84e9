#include "common/kernels/cuda/reduce.h"

#include "common/kernels/cuda/block_sum.h"
#include "common/kernels/cuda/launch.h"

namespace miniddp::cuda {

namespace {

constexpr unsigned threads = 256;

template <class T>
__global__ void sum_part(int64_t n, const T* in, double* parts) {
  double total = 0;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) total += in[i];
  total = block_sum(total);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

template <class T>
__global__ void sum_of_parts(int count, const double* parts, T* out) {
  double total = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) total += parts[i];
  total = block_sum(total);
  if (threadIdx.x == 0) *out = static_cast<T>(total);
}

// 32 columns a block, so that a warp reads 32 neighbours of a row; its 8 warps share the rows.
constexpr int row_warps = 8;

template <class T>
__global__ void sum_each_column(int64_t rows, int64_t columns, const T* in, T* out) {
  __shared__ double part[row_warps][32];
  const int64_t column = int64_t{blockIdx.x} * 32 + threadIdx.x;
  double total = 0;
  if (column < columns)
    for (int64_t row = threadIdx.y; row < rows; row += row_warps) total += in[row * columns + column];
  part[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < row_warps; ++i) total += part[i][threadIdx.x];
  out[column] = static_cast<T>(total);
}

template <class T>
__global__ void sum_each_channel(int64_t batch, int64_t channels, int64_t size, const T* in, T* out) {
  for (int64_t c = blockIdx.x; c < channels; c += gridDim.x) {
    double total = 0;
    for (int64_t i = threadIdx.x; i < batch * size; i += blockDim.x) {
      const int64_t n = i / size;
      total += in[(n * channels + c) * size + (i - n * size)];
    }
    total = block_sum(total);
    if (threadIdx.x == 0) out[c] = static_cast<T>(total);
  }
}

template <class T>
__global__ void sum_each_part(int64_t count, int64_t n, const T* parts, bool accumulate, T* out) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    double total = accumulate ? out[i] : T{0};
    for (int64_t part = 0; part < count; ++part) total += parts[part * n + i];
    out[i] = static_cast<T>(total);
  }
}

}  // namespace

template <class T>
void sum(cudaStream_t stream, int64_t n, const T* in, double* workspace, T* out) {
  const unsigned parts = blocks_for(n, threads, static_cast<unsigned>(sum_workspace));
  launch(sum_part<T>, parts, threads, 0, stream, n, in, workspace);
  launch(sum_of_parts<T>, 1, threads, 0, stream, static_cast<int>(parts), workspace, out);
}

template <class T>
void sum_rows(cudaStream_t stream, int64_t rows, int64_t columns, const T* in, T* out) {
  const auto blocks = static_cast<unsigned>((columns + 31) / 32);
  launch(sum_each_column<T>, blocks, dim3(32, row_warps), 0, stream, rows, columns, in, out);
}

template <class T>
void sum_channels(cudaStream_t stream, int64_t batch, int64_t channels, int64_t size, const T* in, T* out) {
  launch(sum_each_channel<T>, blocks_for(channels, 1), threads, 0, stream, batch, channels, size, in, out);
}

template <class T>
void sum_parts(cudaStream_t stream, int64_t count, int64_t n, const T* parts, bool accumulate, T* out) {
  launch(sum_each_part<T>, blocks_for(n, threads), threads, 0, stream, count, n, parts, accumulate, out);
}

#define INSTANTIATE(T)                                                                    \
  template void sum(cudaStream_t, int64_t, const T*, double*, T*);                        \
  template void sum_rows(cudaStream_t, int64_t, int64_t, const T*, T*);                   \
  template void sum_channels(cudaStream_t, int64_t, int64_t, int64_t, const T*, T*);      \
  template void sum_parts(cudaStream_t, int64_t, int64_t, const T*, bool, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace miniddp::cuda
