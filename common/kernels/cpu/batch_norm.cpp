#include <cmath>

#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

/// x (N, C, …) seen as N * C planes of `size` elements.
struct Planes {
  explicit Planes(const Tensor& x) : batch(x.size(0)), channels(x.size(1)) {
    for (int64_t d = 2; d < x.dim(); ++d) size *= x.size(d);
  }
  int64_t batch, channels, size = 1;
  int64_t per_channel() const { return batch * size; }
};

/// f(channel) for each, side by side.
template <class F>
void for_each_channel(const Planes& planes, const F& f) {
  parallel_for(planes.channels, planes.per_channel(), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) f(c);
  });
}

/// Sum of f(index) over the elements of a channel, in float64: it holds however many there are.
template <class F>
double sum_channel(const Planes& planes, int64_t c, const F& f) {
  double total = 0;
  for (int64_t n = 0; n < planes.batch; ++n) {
    const int64_t start = (n * planes.channels + c) * planes.size;
#pragma omp simd reduction(+ : total)
    for (int64_t i = start; i < start + planes.size; ++i) total += f(i);
  }
  return total;
}

/// out[i] = f(index, channel) for all elements.
template <class T, class F>
void map_planes(const Planes& planes, T* out, const F& f) {
  parallel_for(planes.batch * planes.channels, planes.size, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t c = plane % planes.channels;
#pragma omp simd
      for (int64_t i = plane * planes.size; i < (plane + 1) * planes.size; ++i) out[i] = f(i, c);
    }
  });
}

}  // namespace

void CpuKernels::batch_norm_stats(const Tensor& x, Tensor& mean, Tensor& var) {
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    const Planes planes(x);
    const T* in = x.data<T>();
    T *mean_out = mean.data<T>(), *var_out = var.data<T>();
    const auto count = static_cast<double>(planes.per_channel());
    for_each_channel(planes, [&](int64_t c) {
      const double centre = sum_channel(planes, c, [&](int64_t i) { return static_cast<double>(in[i]); }) / count;
      const double squares = sum_channel(planes, c, [&](int64_t i) { return (in[i] - centre) * (in[i] - centre); });
      mean_out[c] = static_cast<T>(centre);
      var_out[c] = static_cast<T>(squares / count);
    });
  });
}

void CpuKernels::inverse_std(const Tensor& var, double eps, Tensor& invstd) {
  with_float_type(var, [&](auto zero) {
    using T = decltype(zero);
    const T* in = var.data<T>();
    T* out = invstd.data<T>();
    for (int64_t c = 0; c < var.numel(); ++c) out[c] = static_cast<T>(1 / std::sqrt(static_cast<double>(in[c]) + eps));
  });
}

void CpuKernels::batch_norm_forward(const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& w,
                                    const Tensor& b, Tensor& y) {
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    const T *in = x.data<T>(), *centre = mean.data<T>(), *inverse = invstd.data<T>();
    const T *weight = w.data<T>(), *bias = b.data<T>();
    map_planes(Planes(x), y.data<T>(), [=](int64_t i, int64_t c) {
      return (in[i] - centre[c]) * (inverse[c] * weight[c]) + bias[c];
    });
  });
}

void CpuKernels::batch_norm_backward_reduce(const Tensor& dy, const Tensor& x, const Tensor& mean, Tensor& sum_dy,
                                            Tensor& sum_dy_xmu) {
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    const Planes planes(x);
    const T *in = x.data<T>(), *grad = dy.data<T>(), *centre = mean.data<T>();
    T *sum_out = sum_dy.data<T>(), *product_out = sum_dy_xmu.data<T>();
    for_each_channel(planes, [&](int64_t c) {
      const double mu = centre[c];
      sum_out[c] = static_cast<T>(sum_channel(planes, c, [&](int64_t i) { return static_cast<double>(grad[i]); }));
      product_out[c] = static_cast<T>(sum_channel(planes, c, [&](int64_t i) { return grad[i] * (in[i] - mu); }));
    });
  });
}

void CpuKernels::batch_norm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                                           const Tensor& w, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                                           double count, Tensor& dx) {
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    const T *in = x.data<T>(), *grad = dy.data<T>(), *centre = mean.data<T>(), *inverse = invstd.data<T>();
    const T *weight = w.data<T>(), *total = sum_dy.data<T>(), *product = sum_dy_xmu.data<T>();
    const T share = static_cast<T>(1 / count);
    map_planes(Planes(x), dx.data<T>(), [=](int64_t i, int64_t c) {
      const T slope = inverse[c] * inverse[c] * product[c] * share;
      return (grad[i] - total[c] * share - (in[i] - centre[c]) * slope) * (inverse[c] * weight[c]);
    });
  });
}

}  // namespace miniddp
