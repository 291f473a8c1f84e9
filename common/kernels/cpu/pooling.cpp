#include <vector>

#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

/// A candidate takes the place of the best so far if it is larger, or NaN: NaN must not be lost.
template <class T>
bool wins(T candidate, T best) {
  return (candidate > best) | (candidate != candidate);
}

/// One row of outputs of a 2x2 window with stride 2, without branches so that it vectorises.
template <class T>
void pool_row_2x2(const T* top, const T* bottom, int64_t outputs, T* y, uint8_t* winner) {
#pragma omp simd
  for (int64_t i = 0; i < outputs; ++i) {
    T best = top[2 * i];
    int place = 0;
    const auto compare = [&](T candidate, int at) {
      const bool better = wins(candidate, best);
      best = better ? candidate : best;
      place = better ? at : place;
    };
    compare(top[2 * i + 1], 1);
    compare(bottom[2 * i], 2);
    compare(bottom[2 * i + 1], 3);
    y[i] = best;
    winner[i] = static_cast<uint8_t>(place);
  }
}

template <class T>
void pool_row(const T* x, int64_t width, MaxPool2dParams params, int64_t outputs, T* y, uint8_t* winner) {
  for (int64_t i = 0; i < outputs; ++i) {
    const T* window = x + i * params.stride;
    T best = window[0];
    int64_t place = 0;
    for (int64_t k = 1; k < params.kernel * params.kernel; ++k) {
      const T candidate = window[k / params.kernel * width + k % params.kernel];
      if (wins(candidate, best)) {
        best = candidate;
        place = k;
      }
    }
    y[i] = best;
    winner[i] = static_cast<uint8_t>(place);
  }
}

template <class T>
void unpool_row_2x2(const T* dy, const uint8_t* winner, int64_t outputs, T* top, T* bottom) {
#pragma omp simd
  for (int64_t i = 0; i < outputs; ++i) {
    const T grad = dy[i];
    const int place = winner[i];
    top[2 * i] = place == 0 ? grad : T{0};
    top[2 * i + 1] = place == 1 ? grad : T{0};
    bottom[2 * i] = place == 2 ? grad : T{0};
    bottom[2 * i + 1] = place == 3 ? grad : T{0};
  }
}

bool is_2x2(MaxPool2dParams params) { return params.kernel == 2 && params.stride == 2; }

}  // namespace

void CpuKernels::max_pool2d_forward(const Tensor& x, MaxPool2dParams params, Tensor& y, Tensor& winner) {
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    const int64_t h = x.size(2), w = x.size(3), oh = y.size(2), ow = y.size(3);
    const T* in = x.data<T>();
    T* out = y.data<T>();
    uint8_t* place = winner.data<uint8_t>();
    parallel_for(y.size(0) * y.size(1), h * w, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        for (int64_t row = 0; row < oh; ++row) {
          const T* from = in + (plane * h + row * params.stride) * w;
          const int64_t to = (plane * oh + row) * ow;
          if (is_2x2(params)) {
            pool_row_2x2(from, from + w, ow, out + to, place + to);
          } else {
            pool_row(from, w, params, ow, out + to, place + to);
          }
        }
      }
    });
  });
}

void CpuKernels::max_pool2d_backward(const Tensor& dy, const Tensor& winner, MaxPool2dParams params, Tensor& dx) {
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    const int64_t h = dx.size(2), w = dx.size(3), oh = dy.size(2), ow = dy.size(3);
    const T* grad = dy.data<T>();
    const uint8_t* place = winner.data<uint8_t>();
    T* out = dx.data<T>();
    parallel_for(dx.size(0) * dx.size(1), h * w, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        T* to = out + plane * h * w;
        // The 2x2 windows write every element they cover, so only leftovers need a zero.
        const bool covered = is_2x2(params) && h == 2 * oh && w == 2 * ow;
        if (!covered) std::fill(to, to + h * w, T{0});
        for (int64_t row = 0; row < oh; ++row) {
          const int64_t from = (plane * oh + row) * ow;
          T* target = to + row * params.stride * w;
          if (is_2x2(params)) {
            unpool_row_2x2(grad + from, place + from, ow, target, target + w);
            continue;
          }
          for (int64_t i = 0; i < ow; ++i) {
            const int64_t k = place[from + i];
            target[i * params.stride + k / params.kernel * w + k % params.kernel] += grad[from + i];
          }
        }
      }
    });
  });
}

}  // namespace miniddp
