// Linear, convolution, pooling, dropout: tensors to pointers, and which kernel does the work.
#include <algorithm>

#include "common/core/generator.h"
#include "common/kernels/cuda/conv2d.h"
#include "common/kernels/cuda/cuda_kernels.h"
#include "common/kernels/cuda/dropout.h"
#include "common/kernels/cuda/elementwise.h"
#include "common/kernels/cuda/matmul.h"
#include "common/kernels/cuda/pooling.h"
#include "common/kernels/cuda/reduce.h"

namespace miniddp {

using cuda::data_or_null;
using cuda::OnDeviceOf;
using cuda::Operand;
using cuda::Scratch;

// --- linear -------------------------------------------------------------------------------------------------------

namespace {

/// c (m, n) = a * b + bias: by cuBLAS if it is large, else by our own kernel.
template <class T>
void multiply(const OnDeviceOf& on, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, const T* bias, T* c) {
  if (!cuda::is_large_product(m, n, k)) return cuda::matmul_registers(on.stream, m, n, k, a, b, bias, c);
  cuda::matmul_cublas(cuda::cublas_handle(on.state.device), m, n, k, a, b, T{0}, c);
  if (bias != nullptr) cuda::add_channel_bias(on.stream, m, n, 1, bias, c);
}

}  // namespace

void CudaKernels::linear_forward(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) {
  const OnDeviceOf on(y);
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    multiply<T>(on, y.size(0), w.size(0), w.size(1), {x.data<T>(), false}, {w.data<T>(), true}, data_or_null<T>(b), y.data<T>());
  });
}

void CudaKernels::linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) {
  const OnDeviceOf on(dx);
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    multiply<T>(on, dy.size(0), w.size(1), w.size(0), {dy.data<T>(), false}, {w.data<T>(), false}, nullptr, dx.data<T>());
  });
}

void CudaKernels::linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db) {
  const OnDeviceOf on(dw);
  with_float_type(dw, [&](auto zero) {
    using T = decltype(zero);
    multiply<T>(on, dw.size(0), dw.size(1), dy.size(0), {dy.data<T>(), true}, {x.data<T>(), false}, nullptr, dw.data<T>());
    if (db.defined()) cuda::sum_rows(on.stream, dy.size(0), dy.size(1), dy.data<T>(), db.data<T>());
  });
}

// --- convolution --------------------------------------------------------------------------------------------------

namespace {

cuda::ConvShape shape_of(const Tensor& x, const Tensor& w, const Tensor& y, Conv2dParams params) {
  const auto size = [](const Tensor& t, int64_t d) {
    check<ShapeError>(t.size(d) < int64_t{1} << 30, "conv2d on CUDA: expected sizes below 2^30, found {}", t.describe());
    return static_cast<int>(t.size(d));
  };
  return {x.size(0),  size(x, 1), size(x, 2), size(x, 3), size(y, 1),
          size(y, 2), size(y, 3), size(w, 2), static_cast<int>(params.stride), static_cast<int>(params.padding)};
}

/// im2col's matrix pays only when each of its elements is used often, and cuBLAS is fast only on large products.
bool use_im2col(const cuda::ConvShape& s) { return s.o >= 16 && s.patch() >= 64; }

/// Samples that im2col takes at once: its matrix stays below 64 MiB, whatever the batch.
int64_t samples_at_once(const cuda::ConvShape& s) {
  const int64_t of_one = std::max<int64_t>(int64_t{s.patch()} * s.places(), s.x_size());
  return std::clamp<int64_t>((int64_t{16} << 20) / std::max<int64_t>(of_one, 1), 1, std::max<int64_t>(s.n, 1));
}

/// f(piece, start): pieces of the batch, one after the other, so that they can share their working memory.
template <class F>
void for_each_piece(const cuda::ConvShape& s, int64_t samples, const F& f) {
  for (int64_t start = 0; start < s.n; start += samples) f(s.with_batch(std::min(samples, s.n - start)), start);
}

// y_n (O, places) = w (O, patch) * columns_n (patch, places)
template <class T>
void forward_by_im2col(const OnDeviceOf& on, const cuda::ConvShape& shape, const T* x, const T* w, const T* b, T* y) {
  const int device = on.state.device;
  const int64_t samples = samples_at_once(shape), step = int64_t{shape.patch()} * shape.places();
  const Scratch<T> columns(samples * step, device);
  for_each_piece(shape, samples, [&](const cuda::ConvShape& s, int64_t start) {
    cuda::im2col(on.stream, s, x + start * s.x_size(), columns.data());
    cuda::matmul_cublas_batched(cuda::cublas_handle(device), s.n, s.o, s.places(), s.patch(), Operand<T>{w}, 0,
                                Operand<T>{columns.data()}, step, y + start * s.y_size(), s.y_size());
  });
  if (b != nullptr) cuda::add_channel_bias(on.stream, shape.n, shape.o, shape.places(), b, y);
}

// columns_n (patch, places) = w^T (patch, O) * dy_n (O, places)
template <class T>
void backward_input_by_im2col(const OnDeviceOf& on, const cuda::ConvShape& shape, const T* dy, const T* w, T* dx) {
  const int device = on.state.device;
  const int64_t samples = samples_at_once(shape), step = int64_t{shape.patch()} * shape.places();
  const Scratch<T> columns(samples * step, device);
  for_each_piece(shape, samples, [&](const cuda::ConvShape& s, int64_t start) {
    cuda::matmul_cublas_batched(cuda::cublas_handle(device), s.n, s.patch(), s.places(), s.o, Operand<T>{w, true}, 0,
                                Operand<T>{dy + start * s.y_size()}, s.y_size(), columns.data(), step);
    cuda::col2im(on.stream, s, columns.data(), dx + start * s.x_size());
  });
}

// dw (O, patch) = sum over n of dy_n (O, places) * columns_n^T (places, patch): a product for each sample, then the sum.
template <class T>
void backward_weight_by_im2col(const OnDeviceOf& on, const cuda::ConvShape& shape, const T* dy, const T* x, T* dw) {
  const int device = on.state.device;
  const int64_t samples = samples_at_once(shape), step = int64_t{shape.patch()} * shape.places();
  const Scratch<T> columns(samples * step, device), parts(samples * shape.w_size(), device);
  for_each_piece(shape, samples, [&](const cuda::ConvShape& s, int64_t start) {
    cuda::im2col(on.stream, s, x + start * s.x_size(), columns.data());
    cuda::matmul_cublas_batched(cuda::cublas_handle(device), s.n, s.o, s.patch(), s.places(), Operand<T>{dy + start * s.y_size()},
                                s.y_size(), Operand<T>{columns.data(), true}, step, parts.data(), s.w_size());
    cuda::sum_parts(on.stream, s.n, s.w_size(), parts.data(), start > 0, dw);
  });
}

template <class T>
void backward_weight_implicit(const OnDeviceOf& on, const cuda::ConvShape& shape, const T* dy, const T* x, T* dw) {
  const int64_t samples = std::min(cuda::most_samples(shape), shape.n);
  const int splits = cuda::split_count(shape.with_batch(samples));
  const Scratch<T> parts(splits * shape.w_size(), on.state.device);
  for_each_piece(shape, samples, [&](const cuda::ConvShape& s, int64_t start) {
    cuda::conv2d_implicit_backward_weight(on.stream, s, dy + start * s.y_size(), x + start * s.x_size(), splits, parts.data());
    cuda::sum_parts(on.stream, splits, s.w_size(), parts.data(), start > 0, dw);
  });
}

}  // namespace

void CudaKernels::conv2d_forward(const Tensor& x, const Tensor& w, const Tensor& b, Conv2dParams params, Tensor& y) {
  if (y.numel() == 0) return;
  const OnDeviceOf on(y);
  const cuda::ConvShape shape = shape_of(x, w, y, params);
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    if (use_im2col(shape)) return forward_by_im2col(on, shape, x.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
    cuda::conv2d_implicit_forward(on.stream, shape, x.data<T>(), w.data<T>(), data_or_null<T>(b), y.data<T>());
  });
}

void CudaKernels::conv2d_backward_input(const Tensor& dy, const Tensor& w, Conv2dParams params, Tensor& dx) {
  if (dx.numel() == 0) return;
  const OnDeviceOf on(dx);
  const cuda::ConvShape shape = shape_of(dx, w, dy, params);
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    if (use_im2col(shape)) return backward_input_by_im2col(on, shape, dy.data<T>(), w.data<T>(), dx.data<T>());
    cuda::conv2d_implicit_backward_input(on.stream, shape, dy.data<T>(), w.data<T>(), dx.data<T>());
  });
}

void CudaKernels::conv2d_backward_weight(const Tensor& dy, const Tensor& x, Conv2dParams params, Tensor& dw, Tensor& db) {
  if (dy.numel() == 0) {  // an empty batch
    fill(dw, 0);
    if (db.defined()) fill(db, 0);
    return;
  }
  const OnDeviceOf on(dw);
  const cuda::ConvShape shape = shape_of(x, dw, dy, params);
  with_float_type(dw, [&](auto zero) {
    using T = decltype(zero);
    const auto go = use_im2col(shape) ? backward_weight_by_im2col<T> : backward_weight_implicit<T>;
    go(on, shape, dy.data<T>(), x.data<T>(), dw.data<T>());
    if (db.defined()) cuda::sum_channels(on.stream, shape.n, shape.o, shape.places(), dy.data<T>(), db.data<T>());
  });
}

// --- pooling ------------------------------------------------------------------------------------------------------

namespace {

cuda::PoolShape pool_shape(const Tensor& x, const Tensor& y, MaxPool2dParams params) {
  check<ShapeError>(x.size(2) * x.size(3) <= int64_t{1} << 30, "max_pool2d on CUDA: expected images of at most 2^30 pixels, found {}",
                    x.describe());
  return {x.size(0) * x.size(1),        static_cast<int>(x.size(2)),    static_cast<int>(x.size(3)),   static_cast<int>(y.size(2)),
          static_cast<int>(y.size(3)), static_cast<int>(params.kernel), static_cast<int>(params.stride)};
}

}  // namespace

void CudaKernels::max_pool2d_forward(const Tensor& x, MaxPool2dParams params, Tensor& y, Tensor& winner) {
  const OnDeviceOf on(y);
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    cuda::max_pool2d_forward(on.stream, pool_shape(x, y, params), x.data<T>(), y.data<T>(), winner.data<uint8_t>());
  });
}

void CudaKernels::max_pool2d_backward(const Tensor& dy, const Tensor& winner, MaxPool2dParams params, Tensor& dx) {
  const OnDeviceOf on(dx);
  with_float_type(dx, [&](auto zero) {
    using T = decltype(zero);
    cuda::max_pool2d_backward(on.stream, pool_shape(dx, dy, params), dy.data<T>(), winner.data<uint8_t>(), dx.data<T>());
  });
}

// --- dropout ------------------------------------------------------------------------------------------------------

void CudaKernels::dropout_mask(double keep, Generator& generator, Tensor& mask) {
  const OnDeviceOf on(mask);
  with_float_type(mask, [&](auto zero) {
    using T = decltype(zero);
    cuda::dropout_mask(on.stream, mask.numel(), keep, generator.initial_seed(), generator.draws(), on.state.later_calls, mask.data<T>());
  });
  generator.random();  // the number of draws is the number of the call: the next mask is another one
}

void CudaKernels::scale_planes(const Tensor& x, const Tensor& mask, Tensor& y) {
  const OnDeviceOf on(y);
  if (mask.numel() == 0) return;
  with_float_type(y, [&](auto zero) {
    using T = decltype(zero);
    cuda::scale_planes(on.stream, mask.numel(), x.numel() / mask.numel(), x.data<T>(), mask.data<T>(), y.data<T>());
  });
}

}  // namespace miniddp
