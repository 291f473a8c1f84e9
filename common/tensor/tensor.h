// Tensor: a handle to a contiguous, row-major array on one device, with autograd's bookkeeping.
// Copying a Tensor copies the handle, as in PyTorch. Names follow torch.Tensor.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/core/device.h"
#include "common/core/dtype.h"
#include "common/core/error.h"
#include "common/core/shape.h"
#include "common/tensor/storage.h"

namespace miniddp {

class Node;        // common/autograd/node.h
struct TensorImpl;  // common/tensor/tensor.cpp's business, and autograd's

class Tensor {
 public:
  using GradHook = std::function<void(Tensor& parameter)>;

  /// An undefined tensor: defined() is false. Stands for "none".
  Tensor() = default;
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  // --- creation -------------------------------------------------------------------------------------------------
  static Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = {});
  static Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = {});
  static Tensor ones(const Shape& shape, DType dtype = DType::float32, Device device = {});
  static Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Device device = {});
  static Tensor empty_like(const Tensor& other);
  static Tensor zeros_like(const Tensor& other);
  /// Copies `values` (row-major) to the device. Throws ShapeError if their number is not the shape's.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = {}) {
    return from_bytes(values.data(), values.size(), shape, dtype_of<T>, device);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {}) {
    return from(std::span<const T>(values), shape, device);
  }
  static Tensor from(std::initializer_list<float> values, const Shape& shape, Device device = {}) {
    return from(std::span<const float>(values.begin(), values.size()), shape, device);
  }

  // --- what it is -----------------------------------------------------------------------------------------------
  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  int64_t dim() const { return static_cast<int64_t>(shape().size()); }
  /// Size of one dimension; negative counts from the end.
  int64_t size(int64_t dim) const { return shape()[resolve_dim(dim, shape())]; }
  int64_t numel() const;
  size_t nbytes() const { return static_cast<size_t>(numel()) * size_of(dtype()); }
  DType dtype() const;
  Device device() const;
  /// "float32 (64, 1, 28, 28) on cpu:0": for messages.
  std::string describe() const;
  /// Same handle: parameters are told apart by it.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  bool shares_storage_with(const Tensor& other) const;
  /// True if this handle is the only one: its memory may be reused.
  bool is_unique() const;

  // --- data -----------------------------------------------------------------------------------------------------
  /// Start of the elements, in the device's memory. Throws Error if T is not the dtype.
  template <class T>
  T* data() const {
    check(dtype_of<T> == dtype(), "expected a {} tensor, found {}", name_of(dtype_of<T>), describe());
    return static_cast<T*>(raw_data());
  }
  void* raw_data() const;
  /// The one element of a tensor with numel 1, as T, whatever the dtype. Waits for the device.
  template <class T>
  T item() const {
    return static_cast<T>(std::is_integral_v<T> ? static_cast<T>(item_int64()) : static_cast<T>(item_double()));
  }
  /// All elements on the host. T must be the dtype.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values(static_cast<size_t>(numel()));
    check(dtype_of<T> == dtype(), "expected a {} tensor, found {}", name_of(dtype_of<T>), describe());
    copy_to_host(values.data());
    return values;
  }

  // --- views and copies -----------------------------------------------------------------------------------------
  /// Same elements, other shape (one size may be -1). Shares storage; differentiable.
  Tensor view(Shape shape) const;
  /// Rows [start, start + length) of dimension 0. Shares storage; differentiable.
  Tensor narrow(int64_t start, int64_t length) const;
  /// Shares storage, without history.
  Tensor detach() const;
  /// A copy in new storage; differentiable.
  Tensor clone() const;
  /// On another device (itself if it is there already); differentiable.
  Tensor to(Device device) const;
  /// In another dtype (itself if it is that already); not differentiable.
  Tensor to(DType dtype) const;
  /// Overwrites the elements with `source`'s (same shape and dtype, any device). Not recorded.
  Tensor& copy_(const Tensor& source);
  Tensor& zero_();
  Tensor& fill_(double value);
  /// this += alpha * other. Not recorded.
  Tensor& add_(const Tensor& other, double alpha = 1);
  /// this *= factor. Not recorded.
  Tensor& mul_(double factor);

  // --- autograd -------------------------------------------------------------------------------------------------
  bool requires_grad() const;
  /// Only leaves may be switched. Returns *this.
  Tensor& set_requires_grad(bool value = true);
  bool is_leaf() const;
  /// The gradient of a leaf; undefined before the first backward.
  Tensor grad() const;
  void set_grad(Tensor grad);
  /// Forgets the gradient, or fills it with zeros: what zero_grad() of a module or an optimizer does to each parameter.
  void zero_grad(bool set_to_none = true);
  /// Gradients of all leaves behind this tensor: each leaf's .grad += d(this)/d(leaf). `gradient` may be omitted for a scalar.
  /// Throws Error if the graph was freed by an earlier backward without retain_graph.
  void backward(Tensor gradient = {}, bool retain_graph = false) const;
  /// Called with this leaf each time backward has finished its gradient. Returns a number for remove_hook.
  int register_post_accumulate_grad_hook(GradHook hook) const;
  void remove_hook(int number) const;

  TensorImpl* impl() const { return impl_.get(); }

 private:
  static Tensor from_bytes(const void* values, size_t count, const Shape& shape, DType dtype, Device device);
  void copy_to_host(void* out) const;
  int64_t item_int64() const;
  double item_double() const;

  std::shared_ptr<TensorImpl> impl_;
};

/// Copies `rows` rows of `width` bytes between any two devices; see Kernels::copy_rows.
void copy_rows(void* dst, Device dst_device, size_t dst_pitch, const void* src, Device src_device, size_t src_pitch,
               size_t width, size_t rows);

/// Throws DeviceError, naming `what`, both devices and the remedy, unless all defined tensors are on one device.
void check_same_device(std::string_view what, std::span<const Tensor* const> tensors);

}  // namespace miniddp
