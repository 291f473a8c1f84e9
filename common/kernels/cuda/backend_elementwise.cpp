// Elementwise operators, sums, BatchNorm, SGD: tensors to pointers.
#include <vector>

#include "common/kernels/cuda/batch_norm.h"
#include "common/kernels/cuda/cuda_kernels.h"
#include "common/kernels/cuda/elementwise.h"
#include "common/kernels/cuda/reduce.h"
#include "common/kernels/cuda/sgd.h"

namespace miniddp {

using cuda::OnDeviceOf;

void CudaKernels::fill(Tensor& out, double value) {
  const OnDeviceOf on(out);
  const auto fill_as = [&](auto typed) { cuda::fill(on.stream, out.numel(), typed, out.data<decltype(typed)>()); };
  switch (out.dtype()) {
    case DType::float32: return fill_as(static_cast<float>(value));
    case DType::float64: return fill_as(value);
    case DType::int64: return fill_as(static_cast<int64_t>(value));
    case DType::uint8: return fill_as(static_cast<uint8_t>(value));
    default: throw Error("expected a tensor that fill can take (not a 16-bit float), found {}", out.describe());
  }
}

void CudaKernels::cast(const Tensor& in, Tensor& out) {
  const OnDeviceOf on(out);
  cuda::cast(on.stream, out.numel(), in.dtype(), in.raw_data(), out.dtype(), out.raw_data());
}

void CudaKernels::add(const Tensor& a, const Tensor& b, Tensor& out) {
  const OnDeviceOf on(out);
  with_float_type(out, [&](auto zero) {
    using T = decltype(zero);
    cuda::add(on.stream, out.numel(), a.data<T>(), b.data<T>(), out.data<T>());
  });
}

void CudaKernels::mul(const Tensor& a, const Tensor& b, Tensor& out) {
  const OnDeviceOf on(out);
  with_float_type(out, [&](auto zero) {
    using T = decltype(zero);
    cuda::mul(on.stream, out.numel(), a.data<T>(), b.data<T>(), out.data<T>());
  });
}

void CudaKernels::scale(const Tensor& a, double factor, Tensor& out) {
  const OnDeviceOf on(out);
  with_float_type(out, [&](auto zero) {
    using T = decltype(zero);
    cuda::scale(on.stream, out.numel(), a.data<T>(), static_cast<T>(factor), out.data<T>());
  });
}

void CudaKernels::axpy(double alpha, const Tensor& x, Tensor& y) {
  const OnDeviceOf on(y);
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    cuda::axpy(on.stream, y.numel(), static_cast<T>(alpha), x.data<T>(), y.data<T>());
  });
}

void CudaKernels::relu_forward(const Tensor& x, Tensor& y) {
  const OnDeviceOf on(y);
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    cuda::relu_forward(on.stream, y.numel(), x.data<T>(), y.data<T>());
  });
}

void CudaKernels::relu_backward(const Tensor& dy, const Tensor& y, Tensor& dx) {
  const OnDeviceOf on(dx);
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    cuda::relu_backward(on.stream, dx.numel(), dy.data<T>(), y.data<T>(), dx.data<T>());
  });
}

void CudaKernels::sum(const Tensor& in, Tensor& out) {
  const OnDeviceOf on(in);
  const cuda::Scratch<double> workspace(cuda::sum_workspace, in.device().index);
  with_float_type(in, [&](auto zero) {
    using T = decltype(zero);
    cuda::sum(on.stream, in.numel(), in.data<T>(), workspace.data(), out.data<T>());
  });
}

// --- BatchNorm ----------------------------------------------------------------------------------------------------

namespace {

cuda::NormShape norm_shape(const Tensor& x) {
  int64_t size = 1;
  for (int64_t d = 2; d < x.dim(); ++d) size *= x.size(d);
  return {x.size(0), x.size(1), size};
}

}  // namespace

void CudaKernels::batch_norm_stats(const Tensor& x, Tensor& mean, Tensor& var) {
  const OnDeviceOf on(x);
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    cuda::batch_norm_stats(on.stream, norm_shape(x), x.data<T>(), mean.data<T>(), var.data<T>());
  });
}

void CudaKernels::inverse_std(const Tensor& var, double eps, Tensor& invstd) {
  const OnDeviceOf on(var);
  with_float_type(var, [&](auto zero) {
    using T = decltype(zero);
    cuda::inverse_std(on.stream, var.numel(), var.data<T>(), eps, invstd.data<T>());
  });
}

void CudaKernels::batch_norm_forward(const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& w, const Tensor& b,
                                     Tensor& y) {
  const OnDeviceOf on(x);
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    cuda::batch_norm_forward(on.stream, norm_shape(x), x.data<T>(), mean.data<T>(), invstd.data<T>(), w.data<T>(), b.data<T>(),
                             y.data<T>());
  });
}

void CudaKernels::batch_norm_backward_reduce(const Tensor& dy, const Tensor& x, const Tensor& mean, Tensor& sum_dy, Tensor& sum_dy_xmu) {
  const OnDeviceOf on(x);
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    cuda::batch_norm_backward_reduce(on.stream, norm_shape(x), dy.data<T>(), x.data<T>(), mean.data<T>(), sum_dy.data<T>(),
                                     sum_dy_xmu.data<T>());
  });
}

void CudaKernels::batch_norm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& w,
                                            const Tensor& sum_dy, const Tensor& sum_dy_xmu, double count, Tensor& dx) {
  const OnDeviceOf on(x);
  with_float_type(x, [&](auto zero) {
    using T = decltype(zero);
    cuda::batch_norm_backward_input(on.stream, norm_shape(x), dy.data<T>(), x.data<T>(), mean.data<T>(), invstd.data<T>(), w.data<T>(),
                                    sum_dy.data<T>(), sum_dy_xmu.data<T>(), count, dx.data<T>());
  });
}

// --- SGD ----------------------------------------------------------------------------------------------------------

void CudaKernels::sgd_step(std::span<Tensor> params, std::span<const Tensor> grads, std::span<Tensor> buffers,
                           std::span<const uint8_t> first, SgdParams options) {
  if (params.empty()) return;
  const OnDeviceOf on(params[0]);
  const bool has_buffer = options.momentum != 0;
  const auto step_all_of = [&](auto zero) {
    using T = decltype(zero);
    std::vector<cuda::SgdParameter<T>> all;
    for (size_t i = 0; i < params.size(); ++i) {
      if (params[i].dtype() != dtype_of<T>) continue;
      all.push_back({params[i].data<T>(), grads[i].data<T>(), has_buffer ? buffers[i].data<T>() : nullptr, has_buffer && first[i] != 0,
                     params[i].numel()});
    }
    cuda::sgd_step<T>(on.stream, all, options);
  };
  step_all_of(float{});
  step_all_of(double{});
}

}  // namespace miniddp
