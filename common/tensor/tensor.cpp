#include "common/tensor/tensor.h"

#include <array>

#include "common/autograd/engine.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"
#include "common/kernels/kernels.h"
#include "common/tensor/tensor_impl.h"

namespace miniddp {
namespace {

TensorImpl& impl_of(const Tensor& tensor) {
  check(tensor.defined(), "expected a tensor, found an undefined one");
  return *tensor.impl();
}

// A tensor over part of an existing storage, without history.
Tensor make_view(const TensorImpl& base, size_t offset, Shape shape) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = base.storage;
  impl->offset = offset;
  impl->numel = numel_of(shape);
  impl->shape = std::move(shape);
  impl->dtype = base.dtype;
  return Tensor(std::move(impl));
}

void check_alike(std::string_view what, const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.shape() == b.shape() && a.dtype() == b.dtype(), "{}: expected {}, found {}", what, a.describe(),
                    b.describe());
}

Kernels& kernels_of(const Tensor& tensor) { return kernels(tensor.device().type); }

}  // namespace

// --- creation -----------------------------------------------------------------------------------------------------

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  auto impl = std::make_shared<TensorImpl>();
  impl->numel = numel_of(shape);
  impl->shape = shape;
  impl->dtype = dtype;
  impl->storage = std::make_shared<Storage>(static_cast<size_t>(impl->numel) * size_of(dtype), device);
  return Tensor(std::move(impl));
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  return out.fill_(value);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }
Tensor Tensor::ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }
Tensor Tensor::empty_like(const Tensor& other) { return empty(other.shape(), other.dtype(), other.device()); }
Tensor Tensor::zeros_like(const Tensor& other) { return zeros(other.shape(), other.dtype(), other.device()); }

Tensor Tensor::from_bytes(const void* values, size_t count, const Shape& shape, DType dtype, Device device) {
  check<ShapeError>(static_cast<int64_t>(count) == numel_of(shape), "expected {} values for shape {}, found {}", numel_of(shape),
                    to_string(shape), count);
  Tensor out = empty(shape, dtype, device);
  copy_rows(out.raw_data(), device, out.nbytes(), values, Device{}, out.nbytes(), out.nbytes(), 1);
  return out;
}

// --- what it is ---------------------------------------------------------------------------------------------------

const Shape& Tensor::shape() const { return impl_of(*this).shape; }
int64_t Tensor::numel() const { return impl_of(*this).numel; }
DType Tensor::dtype() const { return impl_of(*this).dtype; }
Device Tensor::device() const { return impl_of(*this).storage->device(); }

std::string Tensor::describe() const {
  if (!defined()) return "an undefined tensor";
  return fmt::format("{} {} on {}", name_of(dtype()), to_string(shape()), device().str());
}

bool Tensor::shares_storage_with(const Tensor& other) const {
  return defined() && other.defined() && impl_->storage == other.impl_->storage;
}

bool Tensor::is_unique() const { return defined() && impl_.use_count() == 1 && impl_->storage.use_count() == 1; }

// --- data ---------------------------------------------------------------------------------------------------------

void* Tensor::raw_data() const {
  const TensorImpl& impl = impl_of(*this);
  return static_cast<char*>(impl.storage->data()) + impl.offset;
}

void Tensor::copy_to_host(void* out) const { copy_rows(out, Device{}, nbytes(), raw_data(), device(), nbytes(), nbytes(), 1); }

int64_t Tensor::item_int64() const {
  if (dtype() != DType::int64 && dtype() != DType::uint8) return static_cast<int64_t>(item_double());
  check<ShapeError>(numel() == 1, "item() needs a tensor of one element, found {}", describe());
  return dtype() == DType::int64 ? to_vector<int64_t>()[0] : to_vector<uint8_t>()[0];
}

double Tensor::item_double() const {
  check<ShapeError>(numel() == 1, "item() needs a tensor of one element, found {}", describe());
  switch (dtype()) {
    case DType::float32: return to_vector<float>()[0];
    case DType::float64: return to_vector<double>()[0];
    case DType::int64:
    case DType::uint8: return static_cast<double>(item_int64());
    default: return to(DType::float32).item_double();
  }
}

// --- views and copies ---------------------------------------------------------------------------------------------

Tensor Tensor::view(Shape shape) const {
  const TensorImpl& base = impl_of(*this);
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& size : shape) {
    if (size != -1) {
      known *= size;
      continue;
    }
    check<ShapeError>(open == nullptr, "view: at most one size may be -1, found {}", to_string(shape));
    open = &size;
  }
  if (open != nullptr) *open = known == 0 ? 0 : base.numel / known;
  check<ShapeError>(numel_of(shape) == base.numel, "view: shape {} is not possible for {}", to_string(shape), describe());
  Tensor out = make_view(base, base.offset, std::move(shape));
  record("View", {*this}, out, [from = base.shape](Grads grads) { return Grads{grads[0].view(from)}; });
  return out;
}

Tensor Tensor::narrow(int64_t start, int64_t length) const {
  const TensorImpl& base = impl_of(*this);
  check<ShapeError>(dim() > 0 && start >= 0 && length >= 0 && start + length <= size(0),
                    "narrow: rows {} to {} do not lie in {}", start, start + length, describe());
  Shape shape = base.shape;
  const int64_t row = base.shape[0] == 0 ? 0 : base.numel / base.shape[0];
  shape[0] = length;
  const size_t offset = static_cast<size_t>(start * row) * size_of(base.dtype);
  Tensor out = make_view(base, base.offset + offset, std::move(shape));
  record("Narrow", {*this}, out, [from = base.shape, start, length](Grads grads) {
    Tensor whole = zeros(from, grads[0].dtype(), grads[0].device());
    whole.narrow(start, length).copy_(grads[0]);
    return Grads{whole};
  });
  return out;
}

Tensor Tensor::detach() const {
  const TensorImpl& base = impl_of(*this);
  return make_view(base, base.offset, base.shape);
}

Tensor Tensor::clone() const {
  Tensor out = empty_like(*this);
  out.copy_(*this);
  record("Clone", {*this}, out, [](Grads grads) { return grads; });
  return out;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor out = empty(shape(), dtype(), device);
  out.copy_(*this);
  count_transfer("to", "tensors", this->device(), device, static_cast<int64_t>(nbytes()));
  // Backward runs where the copy lives and brings the gradient home.
  record("ToDevice", {*this}, out, [home = this->device()](Grads grads) { return Grads{grads[0].to(home)}; });
  return out;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == this->dtype()) return *this;
  Tensor out = empty(shape(), dtype, device());
  kernels_of(out).cast(*this, out);
  return out;
}

Tensor& Tensor::copy_(const Tensor& source) {
  check_alike("copy_", *this, source);
  copy_rows(raw_data(), device(), nbytes(), source.raw_data(), source.device(), nbytes(), nbytes(), 1);
  return *this;
}

Tensor& Tensor::zero_() { return fill_(0); }

Tensor& Tensor::fill_(double value) {
  kernels_of(*this).fill(*this, value);
  return *this;
}

Tensor& Tensor::add_(const Tensor& other, double alpha) {
  check_alike("add_", *this, other);
  check_same_device("add_", std::array<const Tensor*, 2>{this, &other});
  kernels_of(*this).axpy(alpha, other, *this);
  return *this;
}

Tensor& Tensor::mul_(double factor) {
  kernels_of(*this).scale(*this, factor, *this);
  return *this;
}

// --- autograd -----------------------------------------------------------------------------------------------------

bool Tensor::requires_grad() const { return defined() && (impl_->requires_grad || impl_->grad_fn != nullptr); }

Tensor& Tensor::set_requires_grad(bool value) {
  TensorImpl& impl = impl_of(*this);
  check(impl.grad_fn == nullptr, "only leaves can change requires_grad, this tensor was made by {}; use detach()",
        impl.grad_fn ? impl.grad_fn->name() : "");
  check(!value || impl.dtype == DType::float32 || impl.dtype == DType::float64,
        "only floating point tensors can require gradients, found {}", describe());
  impl.requires_grad = value;
  return *this;
}

bool Tensor::is_leaf() const { return impl_of(*this).grad_fn == nullptr; }
Tensor Tensor::grad() const { return impl_of(*this).grad; }

void Tensor::set_grad(Tensor grad) {
  if (grad.defined()) {
    check_alike("set_grad", *this, grad);
    check_same_device("set_grad", std::array<const Tensor*, 2>{this, &grad});
  }
  impl_of(*this).grad = std::move(grad);
}

void Tensor::zero_grad(bool set_to_none) {
  Tensor& grad = impl_of(*this).grad;
  if (!grad.defined()) return;
  if (set_to_none) {
    grad = {};
  } else {
    grad.zero_();
  }
}

void Tensor::backward(Tensor gradient, bool retain_graph) const {
  miniddp::backward({*this}, {std::move(gradient)}, retain_graph);
}

int Tensor::register_post_accumulate_grad_hook(GradHook hook) const {
  TensorImpl& impl = impl_of(*this);
  check(impl.grad_fn == nullptr && impl.requires_grad, "a gradient hook needs a leaf that requires a gradient, found {}", describe());
  std::lock_guard lock(impl.mutex);
  impl.hooks.emplace(impl.next_hook, std::move(hook));
  return impl.next_hook++;
}

void Tensor::remove_hook(int number) const {
  TensorImpl& impl = impl_of(*this);
  std::lock_guard lock(impl.mutex);
  impl.hooks.erase(number);
}

// --- free functions -----------------------------------------------------------------------------------------------

void copy_rows(void* dst, Device dst_device, size_t dst_pitch, const void* src, Device src_device, size_t src_pitch, size_t width,
               size_t rows) {
  if (width == 0 || rows == 0) return;
  const bool cuda = dst_device.type == DeviceType::cuda || src_device.type == DeviceType::cuda;
  kernels(cuda ? DeviceType::cuda : DeviceType::cpu).copy_rows(dst, dst_device, dst_pitch, src, src_device, src_pitch, width, rows);
}

void check_same_device(std::string_view what, std::span<const Tensor* const> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    if (first == nullptr) first = tensor;
    check<DeviceError>(tensor->device() == first->device(),
                       "{}: expected all tensors on one device, found {} and {}; move one of them with to(device)", what,
                       first->describe(), tensor->describe());
  }
}

}  // namespace miniddp
