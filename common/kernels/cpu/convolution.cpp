#include "common/kernels/cpu/convolution.h"

#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

ConvShape shape_of(const Tensor& x, const Tensor& w, const Tensor& y, Conv2dParams params) {
  return {x.size(0), x.size(1), x.size(2), x.size(3),     y.size(1),     y.size(2),
          y.size(3), w.size(2), params.stride, params.padding};
}

template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace

void CpuKernels::conv2d_forward(const Tensor& x, const Tensor& w, const Tensor& b, Conv2dParams params, Tensor& y) {
  if (y.numel() == 0) return;
  const ConvShape shape = shape_of(x, w, y, params);
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == sizeof(float)) {
      fast_conv::forward(shape, x.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
    } else {
      plain_conv::forward(shape, x.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
    }
  });
}

void CpuKernels::conv2d_backward_input(const Tensor& dy, const Tensor& w, Conv2dParams params, Tensor& dx) {
  if (dx.numel() == 0) return;
  const ConvShape shape = shape_of(dx, w, dy, params);
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == sizeof(float)) {
      fast_conv::backward_input(shape, dy.data<T>(), w.data<T>(), dx.data<T>());
    } else {
      plain_conv::backward_input(shape, dy.data<T>(), w.data<T>(), dx.data<T>());
    }
  });
}

void CpuKernels::conv2d_backward_weight(const Tensor& dy, const Tensor& x, Conv2dParams params, Tensor& dw,
                                        Tensor& db) {
  if (dy.numel() == 0) {  // an empty batch
    fill(dw, 0);
    if (db.defined()) fill(db, 0);
    return;
  }
  const ConvShape shape = shape_of(x, dw, dy, params);
  with_float_type(dw, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == sizeof(float)) {
      fast_conv::backward_weight(shape, dy.data<T>(), x.data<T>(), dw.data<T>(), data_or_null<T>(db));
    } else {
      plain_conv::backward_weight(shape, dy.data<T>(), x.data<T>(), dw.data<T>(), data_or_null<T>(db));
    }
  });
}

}  // namespace miniddp
