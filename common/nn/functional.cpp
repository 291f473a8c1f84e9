#include "common/nn/functional.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "common/autograd/node.h"
#include "common/core/recorder.h"

namespace miniddp::functional {
namespace {

Kernels& kernels_of(const Tensor& tensor) { return kernels(tensor.device().type); }

void check_float(std::string_view what, const Tensor& x) {
  check(x.defined() && (x.dtype() == DType::float32 || x.dtype() == DType::float64), "{}: expected a floating point tensor, found {}",
        what, x.describe());
}

// All defined tensors on one device and of x's dtype.
void check_inputs(std::string_view what, const Tensor& x, std::initializer_list<const Tensor*> others) {
  check_float(what, x);
  std::vector<const Tensor*> all{&x};
  all.insert(all.end(), others);
  check_same_device(what, all);
  for (const Tensor* other : others) {
    check(!other->defined() || other->dtype() == x.dtype(), "{}: expected {} like the input, found {}", what, name_of(x.dtype()),
          other->describe());
  }
}

void check_same_shape(std::string_view what, const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.shape() == b.shape(), "{}: expected equal shapes, found {} and {}", what, to_string(a.shape()),
                    to_string(b.shape()));
}

Tensor like(const Tensor& x, const Shape& shape) { return Tensor::empty(shape, x.dtype(), x.device()); }

}  // namespace

// --- elementwise --------------------------------------------------------------------------------------------------

Tensor add(const Tensor& a, const Tensor& b) {
  check_inputs("add", a, {&b});
  check_same_shape("add", a, b);
  Tensor out = Tensor::empty_like(a);
  kernels_of(a).add(a, b, out);
  record("Add", {a, b}, out, [](Grads grads) { return Grads{grads[0], grads[0]}; });
  return out;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  check_inputs("mul", a, {&b});
  check_same_shape("mul", a, b);
  Tensor out = Tensor::empty_like(a);
  kernels_of(a).mul(a, b, out);
  record("Mul", {a, b}, out, [a = a.detach(), b = b.detach(), need_a = a.requires_grad(), need_b = b.requires_grad()](Grads grads) {
    return Grads{need_a ? mul(grads[0], b) : Tensor(), need_b ? mul(grads[0], a) : Tensor()};
  });
  return out;
}

Tensor scale(const Tensor& x, double factor) {
  check_float("scale", x);
  Tensor out = Tensor::empty_like(x);
  kernels_of(x).scale(x, factor, out);
  record("Scale", {x}, out, [factor](Grads grads) { return Grads{scale(grads[0], factor)}; });
  return out;
}

Tensor sum(const Tensor& x) {
  check_float("sum", x);
  Tensor out = like(x, {});
  kernels_of(x).sum(x, out);
  record("Sum", {x}, out, [shape = x.shape()](Grads grads) {
    return Grads{Tensor::full(shape, grads[0].item<double>(), grads[0].dtype(), grads[0].device())};
  });
  return out;
}

Tensor mean(const Tensor& x) {
  return scale(sum(x), x.numel() == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.0 / static_cast<double>(x.numel()));
}

Tensor relu(const Tensor& x) {
  check_float("relu", x);
  Tensor y = Tensor::empty_like(x);
  kernels_of(x).relu_forward(x, y);
  record("Relu", {x}, y, [y = y.detach()](Grads grads) {
    // A gradient that nobody else holds is overwritten: one tensor less goes through the caches.
    Tensor dx = grads[0].is_unique() ? grads[0] : Tensor::empty_like(y);
    kernels_of(y).relu_backward(grads[0], y, dx);
    return Grads{dx};
  });
  return y;
}

Tensor relu(Tensor&& x) {
  check_float("relu", x);
  if (!x.is_unique() || needs_record({x})) return relu(static_cast<const Tensor&>(x));
  kernels_of(x).relu_forward(x, x);
  return std::move(x);
}

// --- layers -------------------------------------------------------------------------------------------------------

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_inputs("linear", x, {&weight, &bias});
  check<ShapeError>(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1),
                    "linear: expected input (N, I) and weight (O, I), found {} and {}", to_string(x.shape()), to_string(weight.shape()));
  check<ShapeError>(!bias.defined() || bias.shape() == Shape{weight.size(0)}, "linear: expected bias ({}), found {}", weight.size(0),
                    bias.describe());
  Tensor y = like(x, {x.size(0), weight.size(0)});
  kernels_of(x).linear_forward(x, weight, bias, y);
  // Bias first: PyTorch's gradients of a Linear become ready in this order too.
  record("Linear", {bias, x, weight}, y,
         [x = x.detach(), weight = weight.detach(), need_bias = bias.requires_grad(), need_x = x.requires_grad(),
          need_weight = weight.requires_grad()](Grads grads) {
           Tensor dx, dw, db;
           if (need_x) {
             dx = Tensor::empty_like(x);
             kernels_of(x).linear_backward_input(grads[0], weight, dx);
           }
           if (need_bias) db = like(weight, {weight.size(0)});
           if (need_weight || need_bias) {
             dw = Tensor::empty_like(weight);
             kernels_of(x).linear_backward_weight(grads[0], x, dw, db);
           }
           return Grads{db, dx, need_weight ? dw : Tensor()};
         });
  return y;
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dParams params) {
  check_inputs("conv2d", x, {&weight, &bias});
  check<ShapeError>(x.dim() == 4 && weight.dim() == 4 && x.size(1) == weight.size(1) && weight.size(2) == weight.size(3),
                    "conv2d: expected input (N, C, H, W) and weight (O, C, K, K), found {} and {}", to_string(x.shape()),
                    to_string(weight.shape()));
  check<ShapeError>(!bias.defined() || bias.shape() == Shape{weight.size(0)}, "conv2d: expected bias ({}), found {}", weight.size(0),
                    bias.describe());
  check<ShapeError>(params.stride >= 1 && params.padding >= 0, "conv2d: expected stride >= 1 and padding >= 0, found {} and {}",
                    params.stride, params.padding);
  const int64_t k = weight.size(2);
  const int64_t space_h = x.size(2) + 2 * params.padding - k;
  const int64_t space_w = x.size(3) + 2 * params.padding - k;
  check<ShapeError>(space_h >= 0 && space_w >= 0, "conv2d: the {}x{} kernel is larger than the padded input {}", k, k,
                    to_string(x.shape()));
  Tensor y = like(x, {x.size(0), weight.size(0), space_h / params.stride + 1, space_w / params.stride + 1});
  kernels_of(x).conv2d_forward(x, weight, bias, params, y);
  record("Conv2d", {x, weight, bias}, y,
         [x = x.detach(), weight = weight.detach(), params, need_x = x.requires_grad(), need_weight = weight.requires_grad(),
          need_bias = bias.requires_grad()](Grads grads) {
           Tensor dx, dw, db;
           if (need_bias) db = like(weight, {weight.size(0)});
           if (need_weight || need_bias) {
             dw = Tensor::empty_like(weight);
             kernels_of(x).conv2d_backward_weight(grads[0], x, params, dw, db);
           }
           if (need_x) {
             dx = Tensor::empty_like(x);
             kernels_of(x).conv2d_backward_input(grads[0], weight, params, dx);
           }
           return Grads{dx, need_weight ? dw : Tensor(), db};
         });
  return y;
}

Tensor max_pool2d(const Tensor& x, int64_t kernel, int64_t stride) {
  check_float("max_pool2d", x);
  const MaxPool2dParams params{kernel, stride == 0 ? kernel : stride};
  check<ShapeError>(kernel >= 1 && kernel <= 15 && params.stride >= 1,
                    "max_pool2d: expected a kernel of 1 to 15 and a positive stride, found {} and {}", kernel, params.stride);
  check<ShapeError>(x.dim() == 4 && x.size(2) >= kernel && x.size(3) >= kernel,
                    "max_pool2d: expected input (N, C, H, W) at least {}x{}, found {}", kernel, kernel, to_string(x.shape()));
  const Shape shape{x.size(0), x.size(1), (x.size(2) - kernel) / params.stride + 1, (x.size(3) - kernel) / params.stride + 1};
  Tensor y = like(x, shape);
  Tensor winner = Tensor::empty(shape, DType::uint8, x.device());
  kernels_of(x).max_pool2d_forward(x, params, y, winner);
  record("MaxPool2d", {x}, y, [winner, params, shape = x.shape()](Grads grads) {
    Tensor dx = like(grads[0], shape);
    kernels_of(dx).max_pool2d_backward(grads[0], winner, params, dx);
    return Grads{dx};
  });
  return y;
}

Tensor flatten(const Tensor& x, int64_t start) {
  const int64_t first = resolve_dim(start, x.shape());
  Shape shape(x.shape().begin(), x.shape().begin() + first);
  shape.push_back(numel_of(Shape(x.shape().begin() + first, x.shape().end())));
  return x.view(std::move(shape));
}

// --- dropout ------------------------------------------------------------------------------------------------------

namespace {

// `planes` is the shape of the mask: one element for each run of x's trailing elements.
Tensor dropout_planes(std::string_view what, const Tensor& x, const Shape& planes, double p, bool training, Generator* generator) {
  check_float(what, x);
  check(p >= 0 && p <= 1, "{}: expected a probability in [0, 1], found {}", what, p);
  if (!training || p == 0) return x;
  Tensor mask = like(x, planes);
  if (p == 1) {
    mask.zero_();
  } else {
    kernels_of(x).dropout_mask(1 - p, generator != nullptr ? *generator : default_generator(x.device()), mask);
  }
  Tensor y = Tensor::empty_like(x);
  kernels_of(x).scale_planes(x, mask, y);
  record("Dropout", {x}, y, [mask](Grads grads) {
    Tensor dx = Tensor::empty_like(grads[0]);
    kernels_of(dx).scale_planes(grads[0], mask, dx);
    return Grads{dx};
  });
  return y;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator) {
  return dropout_planes("dropout", x, x.shape(), p, training, generator);
}

Tensor dropout2d(const Tensor& x, double p, bool training, Generator* generator) {
  check<ShapeError>(x.dim() >= 2, "dropout2d: expected at least (N, C), found {}", x.describe());
  return dropout_planes("dropout2d", x, {x.size(0), x.size(1)}, p, training, generator);
}

// --- losses -------------------------------------------------------------------------------------------------------

Tensor log_softmax(const Tensor& x) {
  check_float("log_softmax", x);
  check<ShapeError>(x.dim() == 2, "log_softmax: expected input (N, C), found {}", to_string(x.shape()));
  Tensor y = Tensor::empty_like(x);
  kernels_of(x).log_softmax_forward(x, y);
  record("LogSoftmax", {x}, y, [y = y.detach()](Grads grads) {
    Tensor dx = Tensor::empty_like(y);
    kernels_of(y).log_softmax_backward(grads[0], y, dx);
    return Grads{dx};
  });
  return y;
}

Tensor nll_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  check_float("nll_loss", x);
  check(target.defined() && target.dtype() == DType::int64, "nll_loss: expected int64 targets, found {}", target.describe());
  check_same_device("nll_loss", std::array<const Tensor*, 2>{&x, &target});
  check<ShapeError>(x.dim() == 2 && target.dim() == 1, "nll_loss: expected input (N, C) and target (N), found {} and {}",
                    to_string(x.shape()), to_string(target.shape()));
  check<ShapeError>(x.size(0) == target.size(0), "Expected input batch_size ({}) to match target batch_size ({}).", x.size(0),
                    target.size(0));
  const Span span("loss", x.device());
  Tensor loss = like(x, {});
  kernels_of(x).nll_loss_forward(x, target, reduction, loss);
  record("NllLoss", {x}, loss, [target, reduction, shape = x.shape()](Grads grads) {
    Tensor dx = like(grads[0], shape);
    kernels_of(dx).nll_loss_backward(grads[0], target, reduction, dx);
    return Grads{dx};
  });
  return loss;
}

Tensor cross_entropy(const Tensor& x, const Tensor& target, Reduction reduction) {
  const Span span("loss", x.defined() ? x.device() : Device{});
  return nll_loss(log_softmax(x), target, reduction);
}

// --- BatchNorm ----------------------------------------------------------------------------------------------------

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var, bool training,
                  double momentum, double eps) {
  check_inputs("batch_norm", x, {&weight, &bias, &running_mean, &running_var});
  check<ShapeError>(x.dim() >= 2, "batch_norm: expected input (N, C, …), found {}", to_string(x.shape()));
  const Shape channels{x.size(1)};
  for (const Tensor* each : {&weight, &bias, &std::as_const(running_mean), &std::as_const(running_var)}) {
    check<ShapeError>(each->defined() && each->shape() == channels, "batch_norm: expected ({}) values per tensor, found {}",
                      channels[0], each->describe());
  }
  const double count = static_cast<double>(x.numel()) / static_cast<double>(std::max<int64_t>(channels[0], 1));
  Tensor mean = running_mean.detach();
  Tensor var = running_var.detach();
  if (training) {
    check<ShapeError>(count > 1, "Expected more than 1 value per channel when training, got input size {}", to_string(x.shape()));
    mean = like(x, channels);
    var = like(x, channels);
    kernels_of(x).batch_norm_stats(x, mean, var);
    running_mean.mul_(1 - momentum).add_(mean, momentum);
    running_var.mul_(1 - momentum).add_(var, momentum * count / (count - 1));
  }
  Tensor invstd = like(x, channels);
  kernels_of(x).inverse_std(var, eps, invstd);
  Tensor y = Tensor::empty_like(x);
  kernels_of(x).batch_norm_forward(x, mean, invstd, weight, bias, y);
  if (!needs_record({x, weight, bias})) return y;
  if (!training) mean = mean.clone();  // the running mean may move before backward
  record("BatchNorm", {x, weight, bias}, y, [x = x.detach(), weight = weight.detach(), mean, invstd, training, count](Grads grads) {
    const Tensor& dy = grads[0];
    Tensor sum_dy = Tensor::empty_like(weight), sum_dy_xmu = Tensor::empty_like(weight), dw = Tensor::empty_like(weight);
    Tensor dx = Tensor::empty_like(x);
    kernels_of(x).batch_norm_backward_reduce(dy, x, mean, sum_dy, sum_dy_xmu);
    kernels_of(x).mul(sum_dy_xmu, invstd, dw);
    if (training) {
      kernels_of(x).batch_norm_backward_input(dy, x, mean, invstd, weight, sum_dy, sum_dy_xmu, count, dx);
    } else {
      // The statistics are constants: dx = dy * invstd * w, which is the formula with empty sums.
      Tensor none = Tensor::zeros_like(weight);
      kernels_of(x).batch_norm_backward_input(dy, x, mean, invstd, weight, none, none, count, dx);
    }
    return Grads{dx, dw, sum_dy};
  });
  return y;
}

}  // namespace miniddp::functional
