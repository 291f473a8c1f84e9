#include "common/nn/module.h"

#include <set>

#include "common/core/recorder.h"
#include "common/core/warning.h"

namespace miniddp {

Value Module::forward_values(const Inputs& inputs) {
  check(!inputs.args.empty() || !inputs.kwargs.items.empty(), "forward() missing 1 required positional argument: 'input'");
  check(inputs.args.size() + inputs.kwargs.items.size() == 1 && (inputs.kwargs.items.empty() || inputs.kwargs.items[0].first == "input"),
        "forward() takes 1 argument, 'input', but {} positional and {} named ones were given; a module that takes others overrides "
        "forward_values",
        inputs.args.size(), inputs.kwargs.items.size());
  return forward(inputs.get(0, "input").tensor());
}

namespace {

// The outermost forward on a thread is a phase of the training step.
template <class Run>
auto as_phase(Device device, const Run& run) {
  if (!recording() || Span::inside("forward")) return run();
  const Span span("forward", device);
  return run();
}

}  // namespace

Tensor Module::operator()(const Tensor& input) {
  Tensor output = as_phase(input.device(), [&] { return forward(input); });
  for (const ForwardHook& hook : forward_hooks_) hook(*this, Inputs{{input}, {}}, output);
  return output;
}

Value Module::operator()(const Inputs& inputs) {
  const Tensor* first = inputs.args.empty() ? nullptr : inputs.args[0].get_if<Tensor>();
  Value output = as_phase(first == nullptr ? Device{} : first->device(), [&] { return forward_values(inputs); });
  for (const ForwardHook& hook : forward_hooks_) hook(*this, inputs, output);
  return output;
}

void Module::visit_slots(const SlotVisitor& visit, const std::string& prefix) {
  for (const Slot& slot : slots_) {
    if ((this->*slot.member).defined()) visit(prefix + slot.name, this->*slot.member, slot.is_parameter);
  }
  for (const auto& [name, child] : children_) child(*this).visit_slots(visit, prefix + name + ".");
}

std::vector<std::pair<std::string, Module*>> Module::named_children() const {
  std::vector<std::pair<std::string, Module*>> children;
  for (const auto& [name, child] : children_) children.emplace_back(name, &child(const_cast<Module&>(*this)));
  return children;
}

namespace {

// The registered tensors of one kind; `unique` drops the later names of a tied one.
NamedTensors collect(const Module& module, bool parameters, bool buffers, bool unique) {
  NamedTensors found;
  std::set<const TensorImpl*> seen;
  const_cast<Module&>(module).visit_slots([&](const std::string& name, Tensor& slot, bool is_parameter) {
    if (!(is_parameter ? parameters : buffers)) return;
    if (unique && !seen.insert(slot.impl()).second) return;
    found.emplace_back(name, slot);
  });
  return found;
}

std::vector<Tensor> without_names(const NamedTensors& named) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

NamedTensors Module::named_parameters() const { return collect(*this, true, false, true); }
NamedTensors Module::named_buffers() const { return collect(*this, false, true, true); }
std::vector<Tensor> Module::parameters() const { return without_names(named_parameters()); }
std::vector<Tensor> Module::buffers() const { return without_names(named_buffers()); }
NamedTensors Module::state_dict() const { return collect(*this, true, true, false); }

void Module::load_state_dict(const NamedTensors& state) {
  std::map<std::string, Tensor> given(state.begin(), state.end());
  std::string missing, unexpected, different;
  const NamedTensors own = state_dict();
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found == given.end()) {
      missing += fmt::format("{}\"{}\"", missing.empty() ? "" : ", ", name);
      continue;
    }
    if (found->second.shape() != tensor.shape() || found->second.dtype() != tensor.dtype()) {
      different += fmt::format(" {}: expected {}, found {}.", name, tensor.describe(), found->second.describe());
    }
    given.erase(found);
  }
  for (const auto& [name, tensor] : given) unexpected += fmt::format("{}\"{}\"", unexpected.empty() ? "" : ", ", name);
  if (!missing.empty()) missing = fmt::format(" Missing key(s) in state_dict: {}.", missing);
  if (!unexpected.empty()) unexpected = fmt::format(" Unexpected key(s) in state_dict: {}.", unexpected);
  check(missing.empty() && unexpected.empty() && different.empty(), "cannot load this state_dict:{}{}{}", missing, unexpected, different);
  given = std::map<std::string, Tensor>(state.begin(), state.end());
  for (auto& [name, tensor] : own) Tensor(tensor).copy_(given.at(name));
}

void Module::train(bool on) {
  training_ = on;
  for (auto& [name, child] : named_children()) child->train(on);
}

namespace {

// Replaces every tensor by its conversion; tied slots stay tied, parameters stay leaves.
template <class Convert>
void convert_slots(Module& module, Convert convert) {
  std::map<const TensorImpl*, Tensor> done;
  std::vector<Tensor> keep_alive;
  module.visit_slots([&](const std::string&, Tensor& slot, bool) {
    keep_alive.push_back(slot);
    Tensor& target = done[slot.impl()];
    if (!target.defined()) {
      const bool requires_grad = slot.requires_grad();
      target = convert(slot);
      if (!target.is_same(slot)) target = target.detach().set_requires_grad(requires_grad);
    }
    slot = target;
  });
}

}  // namespace

void Module::to(Device device) {
  convert_slots(*this, [&](const Tensor& tensor) { return tensor.to(device); });
}

void Module::to(DType dtype) {
  convert_slots(*this, [&](const Tensor& tensor) { return tensor.dtype() == DType::int64 ? tensor : tensor.to(dtype); });
}

void Module::zero_grad(bool set_to_none) {
  for (Tensor& parameter : parameters()) {
    if (!parameter.is_leaf()) {
      warn("zero_grad() of a replica has no effect: its parameters are copies, their gradients go to the original module");
      return;
    }
    parameter.zero_grad(set_to_none);
  }
}

NamedTensors consume_prefix_in_state_dict_if_present(NamedTensors state, const std::string& prefix) {
  // BEGIN SOLUTION 03.2 names without module.
  for (auto& [name, tensor] : state) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  return state;
  // END SOLUTION
}

}  // namespace miniddp
