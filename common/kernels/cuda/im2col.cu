// The patches of images as a matrix, and back. For a 3 x 3 kernel the matrix is 9 times as large as the image; what that
// costs in memory traffic, cuBLAS wins back where there are many channels.
#include "common/kernels/cuda/conv2d.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/planes.h"

namespace miniddp::cuda {

namespace {

constexpr unsigned threads = 256;

template <class T>
__global__ void write_patches(int count, ConvShape s, const T* x, T* columns) {
  const int step = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) {
    // i = ((n * C + c) * K + kh) * K + kw) * places + place
    const int place = i % s.places(), tap = i / s.places();
    const int kw = tap % s.k, kh = tap / s.k % s.k, plane = tap / (s.k * s.k);
    const int row = place / s.ow * s.stride - s.padding + kh, column = place % s.ow * s.stride - s.padding + kw;
    const bool inside = row >= 0 && row < s.h && column >= 0 && column < s.w;
    columns[i] = inside ? x[(int64_t{plane} * s.h + row) * s.w + column] : T{0};
  }
}

// Each pixel collects from the patches it is in. The other way round, patches adding to pixels, would need atomics.
template <class T>
__global__ void collect_patches(int count, ConvShape s, const T* columns, T* dx) {
  const int step = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) {
    const int column = i % s.w + s.padding, row = i / s.w % s.h + s.padding, plane = i / s.pixels();
    T total = 0;
    for (int kh = 0; kh < s.k; ++kh) {
      const int down = row - kh;
      if (down < 0 || down % s.stride != 0 || down / s.stride >= s.oh) continue;
      for (int kw = 0; kw < s.k; ++kw) {
        const int right = column - kw;
        if (right < 0 || right % s.stride != 0 || right / s.stride >= s.ow) continue;
        const int place = down / s.stride * s.ow + right / s.stride;
        total += columns[(int64_t{plane} * s.k * s.k + kh * s.k + kw) * s.places() + place];
      }
    }
    dx[i] = total;
  }
}

template <class T>
__global__ void add_bias(int64_t planes, int64_t channels, int64_t size, const T* b, T* y) {
  for (int64_t plane = first_plane(); plane < planes; plane += plane_step()) {
    const T bias = b[plane % channels];
    for (int64_t i = threadIdx.x; i < size; i += blockDim.x) y[plane * size + i] += bias;
  }
}

/// Indices are 32-bit: divisions of 64-bit numbers take several times as long.
int small(int64_t count) {
  check<ShapeError>(count <= int64_t{1} << 30, "im2col: expected at most 2^30 elements at once, found {}", count);
  return static_cast<int>(count);
}

}  // namespace

template <class T>
void im2col(cudaStream_t stream, const ConvShape& shape, const T* x, T* columns) {
  const int count = small(shape.n * shape.patch() * shape.places());
  launch(write_patches<T>, blocks_for(count, threads), threads, 0, stream, count, shape, x, columns);
}

template <class T>
void col2im(cudaStream_t stream, const ConvShape& shape, const T* columns, T* dx) {
  const int count = small(shape.n * shape.x_size());
  launch(collect_patches<T>, blocks_for(count, threads), threads, 0, stream, count, shape, columns, dx);
}

template <class T>
void add_channel_bias(cudaStream_t stream, int64_t batch, int64_t channels, int64_t size, const T* b, T* y) {
  const dim3 block = plane_block(size);
  launch(add_bias<T>, plane_grid(batch * channels, block), block, 0, stream, batch * channels, channels, size, b, y);
}

#define INSTANTIATE(T)                                                                  \
  template void im2col(cudaStream_t, const ConvShape&, const T*, T*);                   \
  template void col2im(cudaStream_t, const ConvShape&, const T*, T*);                   \
  template void add_channel_bias(cudaStream_t, int64_t, int64_t, int64_t, const T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace miniddp::cuda
