#include "common/kernels/cuda/pooling.h"

#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/planes.h"

namespace miniddp::cuda {

namespace {

// Planes are walked as planes.h says, so within a plane small numbers do.
template <class T>
__global__ void pool(PoolShape s, const T* x, T* y, uint8_t* winner) {
  // BEGIN SOLUTION 01.1 max-pool kernel
  const int outputs = s.oh * s.ow;
  for (int64_t plane = first_plane(); plane < s.planes; plane += plane_step()) {
    const T* image = x + plane * s.h * s.w;
    for (int i = static_cast<int>(threadIdx.x); i < outputs; i += static_cast<int>(blockDim.x)) {
      const T* window = image + (i / s.ow * s.stride) * s.w + i % s.ow * s.stride;
      T best = window[0];
      int place = 0;
      for (int row = 0; row < s.kernel; ++row) {
        for (int column = 0; column < s.kernel; ++column) {
          const T candidate = window[row * s.w + column];
          if (candidate > best || (candidate != candidate && best == best)) {
            best = candidate;
            place = row * s.kernel + column;
          }
        }
      }
      y[plane * outputs + i] = best;
      winner[plane * outputs + i] = static_cast<uint8_t>(place);
    }
  }
  // END SOLUTION
}

// Windows may overlap. So each input asks the windows that it lies in whether it won there: always the same order of
// additions, where windows adding to their winners would need atomics.
template <class T>
__global__ void unpool(PoolShape s, const T* dy, const uint8_t* winner, T* dx) {
  // BEGIN SOLUTION 01.4 max-pool's gradient
  const int inputs = s.h * s.w, outputs = s.oh * s.ow;
  for (int64_t plane = first_plane(); plane < s.planes; plane += plane_step()) {
    for (int i = static_cast<int>(threadIdx.x); i < inputs; i += static_cast<int>(blockDim.x)) {
      const int row = i / s.w, column = i % s.w;
      const int first_oh = row < s.kernel ? 0 : (row - s.kernel) / s.stride + 1, last_oh = min(row / s.stride, s.oh - 1);
      const int first_ow = column < s.kernel ? 0 : (column - s.kernel) / s.stride + 1, last_ow = min(column / s.stride, s.ow - 1);
      T total = 0;
      for (int oh = first_oh; oh <= last_oh; ++oh) {
        for (int ow = first_ow; ow <= last_ow; ++ow) {
          const int64_t output = plane * outputs + oh * s.ow + ow;
          const int place = (row - oh * s.stride) * s.kernel + column - ow * s.stride;
          if (winner[output] == place) total += dy[output];
        }
      }
      dx[plane * inputs + i] = total;
    }
  }
  // END SOLUTION
}

}  // namespace

template <class T>
void max_pool2d_forward(cudaStream_t stream, const PoolShape& shape, const T* x, T* y, uint8_t* winner) {
  const dim3 block = plane_block(shape.oh * shape.ow);
  launch(pool<T>, plane_grid(shape.planes, block), block, 0, stream, shape, x, y, winner);
}

template <class T>
void max_pool2d_backward(cudaStream_t stream, const PoolShape& shape, const T* dy, const uint8_t* winner, T* dx) {
  const dim3 block = plane_block(shape.h * shape.w);
  launch(unpool<T>, plane_grid(shape.planes, block), block, 0, stream, shape, dy, winner, dx);
}

#define INSTANTIATE(T)                                                                                \
  template void max_pool2d_forward(cudaStream_t, const PoolShape&, const T*, T*, uint8_t*);           \
  template void max_pool2d_backward(cudaStream_t, const PoolShape&, const T*, const uint8_t*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace miniddp::cuda
