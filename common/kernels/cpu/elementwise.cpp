#include <vector>

#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

/// out[i] = f(in[i]...) for all elements. Tensors may be the same one.
template <class T, class F, class... In>
void map(T* out, int64_t n, const F& f, const In*... in) {
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) out[i] = f(in[i]...);
  });
}

template <class T>
void fill_with(Tensor& out, T value) {
  map(out.data<T>(), out.numel(), [value] { return value; });
}

}  // namespace

void CpuKernels::fill(Tensor& out, double value) {
  switch (out.dtype()) {
    case DType::float32: return fill_with(out, static_cast<float>(value));
    case DType::float64: return fill_with(out, value);
    case DType::int64: return fill_with(out, static_cast<int64_t>(value));
    case DType::uint8: return fill_with(out, static_cast<uint8_t>(value));
    default: throw Error("expected a tensor that fill can take (not a 16-bit float), found {}", out.describe());
  }
}

void CpuKernels::add(const Tensor& a, const Tensor& b, Tensor& out) {
  with_float_type(out, [&](auto zero) {
    using T = decltype(zero);
    map(out.data<T>(), out.numel(), [](T x, T y) { return x + y; }, a.data<T>(), b.data<T>());
  });
}

void CpuKernels::mul(const Tensor& a, const Tensor& b, Tensor& out) {
  with_float_type(out, [&](auto zero) {
    using T = decltype(zero);
    map(out.data<T>(), out.numel(), [](T x, T y) { return x * y; }, a.data<T>(), b.data<T>());
  });
}

void CpuKernels::scale(const Tensor& a, double factor, Tensor& out) {
  with_float_type(out, [&](auto zero) {
    using T = decltype(zero);
    const T by = static_cast<T>(factor);
    map(out.data<T>(), out.numel(), [by](T x) { return x * by; }, a.data<T>());
  });
}

void CpuKernels::axpy(double alpha, const Tensor& x, Tensor& y) {
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    const T by = static_cast<T>(alpha);
    map(y.data<T>(), y.numel(), [by](T from, T to) { return to + by * from; }, x.data<T>(), y.data<T>());
  });
}

void CpuKernels::relu_forward(const Tensor& x, Tensor& y) {
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    map(y.data<T>(), y.numel(), [](T v) { return v < 0 ? T{0} : v; }, x.data<T>());  // this way round NaN passes
  });
}

void CpuKernels::relu_backward(const Tensor& dy, const Tensor& y, Tensor& dx) {
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    map(dx.data<T>(), dx.numel(), [](T g, T v) { return v > 0 ? g : T{0}; }, dy.data<T>(), y.data<T>());
  });
}

void CpuKernels::sum(const Tensor& in, Tensor& out) {
  with_float_type(in, [&](auto zero) {
    using T = decltype(zero);
    // Blocks of a fixed size, added up in order: the result does not depend on the number of threads.
    constexpr int64_t block = 4096;
    const int64_t n = in.numel(), blocks = (n + block - 1) / block;
    const T* values = in.data<T>();
    std::vector<double> partial(static_cast<size_t>(blocks));
    parallel_for(blocks, block, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        double total = 0;
        const int64_t stop = std::min(n, (b + 1) * block);
#pragma omp simd reduction(+ : total)
        for (int64_t i = b * block; i < stop; ++i) total += values[i];
        partial[static_cast<size_t>(b)] = total;
      }
    });
    double total = 0;
    for (const double part : partial) total += part;
    *out.data<T>() = static_cast<T>(total);
  });
}

}  // namespace miniddp
