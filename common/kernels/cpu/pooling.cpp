#include <type_traits>
#include <vector>

#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

/// A later candidate takes the place of the best so far if it is larger, or NaN: NaN must not be lost.
template <class T>
bool wins(T candidate, T best) {
  return (candidate > best) | (candidate != candidate);
}

bool is_2x2(MaxPool2dParams params) { return params.kernel == 2 && params.stride == 2; }

/// Planes of h x w elements, pooled by 2x2 windows with stride 2. Rows first, then columns, in long loops without
/// branches: these vectorise. One object belongs to one thread.
template <class T>
class Pool2x2 {
 public:
  Pool2x2(int64_t h, int64_t w)
      : w_(w), oh_(h / 2), ow_(w / 2), value_(static_cast<size_t>(oh_ * w)), place_(static_cast<size_t>(oh_ * w)),
        winner_(static_cast<size_t>(oh_ * ow_)) {}

  void forward(const T* x, T* y, uint8_t* winner) {
    for (int64_t row = 0; row < oh_; ++row) {
      const T *top = x + 2 * row * w_, *bottom = top + w_;
      T* value = value_.data() + row * w_;
      Place* place = place_.data() + row * w_;
#pragma omp simd
      for (int64_t i = 0; i < w_; ++i) {
        const bool lower = wins(bottom[i], top[i]);
        value[i] = lower ? bottom[i] : top[i];
        place[i] = static_cast<Place>(i & 1) + (lower ? Place{2} : Place{0});
      }
    }
    for_each_run([&](int64_t wide, int64_t narrow, int64_t n) {
      const T* value = value_.data() + wide;
      const Place* place = place_.data() + wide;
      T* out = y + narrow;
      Place* won = winner_.data() + narrow;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const T left = value[2 * i], right = value[2 * i + 1];
        const Place left_place = place[2 * i], right_place = place[2 * i + 1];
        // The order of the window is row-major: upper right goes before lower left. Of equals the first wins.
        const bool take_right = (right > left) | ((right == left) & (right_place < left_place)) |
                                ((right != right) & ((left == left) | (right_place > left_place)));
        out[i] = take_right ? right : left;
        won[i] = take_right ? right_place : left_place;
      }
    });
    for (size_t i = 0; i < winner_.size(); ++i) winner[i] = static_cast<uint8_t>(winner_[i]);
  }

  void backward(const T* dy, const uint8_t* winner, T* dx) {
    for (size_t i = 0; i < winner_.size(); ++i) winner_[i] = winner[i];
    for_each_run([&](int64_t wide, int64_t narrow, int64_t n) {
      T* value = value_.data() + wide;
      Place* place = place_.data() + wide;
      const T* grad = dy + narrow;
      const Place* won = winner_.data() + narrow;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        value[2 * i] = value[2 * i + 1] = grad[i];
        place[2 * i] = won[i];
        place[2 * i + 1] = won[i] - 1;  // so that 0 says "above" and 2 "below" in either column
      }
    });
    for (int64_t row = 0; row < oh_; ++row) {
      const T* value = value_.data() + row * w_;
      const Place* place = place_.data() + row * w_;
      T *top = dx + 2 * row * w_, *bottom = top + w_;
#pragma omp simd
      for (int64_t i = 0; i < 2 * ow_; ++i) {
        top[i] = place[i] == 0 ? value[i] : T{0};
        bottom[i] = place[i] == 2 ? value[i] : T{0};
      }
    }
  }

 private:
  using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;  // as wide as T: vectors of equal length

  /// f(first element of the wide rows, first of the narrow rows, narrow elements): the whole plane at once if no column
  /// is left over, else row by row.
  template <class F>
  void for_each_run(const F& f) const {
    if (w_ == 2 * ow_) return f(0, 0, oh_ * ow_);
    for (int64_t row = 0; row < oh_; ++row) f(row * w_, row * ow_, ow_);
  }

  int64_t w_, oh_, ow_;
  std::vector<T> value_;       // (OH, W)
  std::vector<Place> place_;   // (OH, W)
  std::vector<Place> winner_;  // (OH, OW)
};

/// Any window, one plane.
template <class T>
void pool_plane(const T* x, int64_t w, MaxPool2dParams params, int64_t oh, int64_t ow, T* y, uint8_t* winner) {
  for (int64_t out = 0; out < oh * ow; ++out) {
    const T* window = x + out / ow * params.stride * w + out % ow * params.stride;
    T best = window[0];
    int64_t place = 0;
    for (int64_t k = 1; k < params.kernel * params.kernel; ++k) {
      const T candidate = window[k / params.kernel * w + k % params.kernel];
      if (wins(candidate, best)) {
        best = candidate;
        place = k;
      }
    }
    y[out] = best;
    winner[out] = static_cast<uint8_t>(place);
  }
}

template <class T>
void unpool_plane(const T* dy, const uint8_t* winner, int64_t w, MaxPool2dParams params, int64_t oh, int64_t ow,
                  T* dx) {
  for (int64_t out = 0; out < oh * ow; ++out) {
    T* window = dx + out / ow * params.stride * w + out % ow * params.stride;
    window[winner[out] / params.kernel * w + winner[out] % params.kernel] += dy[out];
  }
}

}  // namespace

void CpuKernels::max_pool2d_forward(const Tensor& x, MaxPool2dParams params, Tensor& y, Tensor& winner) {
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    const int64_t h = x.size(2), w = x.size(3), oh = y.size(2), ow = y.size(3);
    const T* in = x.data<T>();
    T* out = y.data<T>();
    uint8_t* place = winner.data<uint8_t>();
    parallel_for(y.size(0) * y.size(1), h * w, [&](int64_t begin, int64_t end) {
      Pool2x2<T> pool(is_2x2(params) ? h : 0, w);
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* from = in + plane * h * w;
        const int64_t to = plane * oh * ow;
        if (is_2x2(params)) {
          pool.forward(from, out + to, place + to);
        } else {
          pool_plane(from, w, params, oh, ow, out + to, place + to);
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
      Pool2x2<T> pool(is_2x2(params) ? h : 0, w);
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t from = plane * oh * ow;
        T* to = out + plane * h * w;
        // 2x2 windows write each element they cover; others add up, and leftovers stay zero.
        if (!is_2x2(params) || h != 2 * oh || w != 2 * ow) std::fill(to, to + h * w, T{0});
        if (is_2x2(params)) {
          pool.backward(grad + from, place + from, to);
        } else {
          unpool_plane(grad + from, place + from, w, params, oh, ow, to);
        }
      }
    });
  });
}

}  // namespace miniddp
