#include "common/optim/sgd.h"

#include <utility>

#include "common/core/recorder.h"

namespace miniddp {

SGD::SGD(std::vector<Tensor> parameters, SgdParams options)
    : parameters_(std::move(parameters)), buffers_(parameters_.size()), options_(options) {
  check(!parameters_.empty(), "SGD got an empty list of parameters");
  check(options.lr >= 0 && options.momentum >= 0 && options.weight_decay >= 0,
        "SGD: expected lr, momentum and weight_decay of at least 0, found {}, {} and {}", options.lr, options.momentum,
        options.weight_decay);
  check(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
        "Nesterov momentum requires a momentum and zero dampening, found momentum {} and dampening {}", options.momentum,
        options.dampening);
  std::vector<const Tensor*> all;
  for (const Tensor& parameter : parameters_) {
    check(parameter.is_leaf() && parameter.requires_grad(), "SGD can only change leaves that require a gradient, found {}",
          parameter.describe());
    all.push_back(&parameter);
  }
  check_same_device("SGD", all);
}

void SGD::step() {
  const Span span("step", parameters_[0].device());
  std::vector<Tensor> params, grads, buffers;
  std::vector<uint8_t> first;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Tensor grad = parameters_[i].grad();
    if (!grad.defined()) continue;
    const bool is_first = options_.momentum != 0 && !buffers_[i].defined();
    if (is_first) buffers_[i] = Tensor::empty_like(parameters_[i]);
    params.push_back(parameters_[i]);
    grads.push_back(std::move(grad));
    buffers.push_back(buffers_[i]);
    first.push_back(is_first);
  }
  if (params.empty()) return;
  kernels(params[0].device().type).sgd_step(params, grads, buffers, first, options_);
}

void SGD::zero_grad(bool set_to_none) {
  for (Tensor& parameter : parameters_) parameter.zero_grad(set_to_none);
}

void SGD::set_momentum_buffers(std::vector<Tensor> buffers) {
  check<ShapeError>(buffers.size() == parameters_.size(), "expected {} momentum buffers, found {}", parameters_.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    check<ShapeError>(!buffers[i].defined() || buffers[i].shape() == parameters_[i].shape(),
                      "momentum buffer {}: expected {}, found {}", i, parameters_[i].describe(), buffers[i].describe());
  }
  buffers_ = std::move(buffers);
}

}  // namespace miniddp
