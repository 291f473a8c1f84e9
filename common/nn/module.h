// Module: parameters, buffers and children by name, as torch.nn.Module.
//
// A module keeps its tensors and children as ordinary data members and registers *pointers to members*. So copying a
// module object copies handles (both share the tensors) and the copy's registry speaks of the copy: that is what
// DataParallel's replicate needs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/nn/value.h"
#include "common/tensor/tensor.h"

namespace miniddp {

/// Tensors by PyTorch's names ("conv1.weight"), in order of registration.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

class Module {
 public:
  virtual ~Module() = default;

  virtual Tensor forward(const Tensor& input) = 0;
  /// The same for modules that take or return something else than one tensor; they override it, and callers of either kind are served.
  /// Here: takes exactly one tensor, alone or named "input", and calls forward. Throws Error otherwise.
  virtual Value forward_values(const Inputs& inputs);

  // Forward, then the hooks.
  Tensor operator()(const Tensor& input);
  Value operator()(const Inputs& inputs);

  /// Called after every forward of this module, in order of registration. Copies of the module, such as DataParallel's replicas, call it
  /// too, each on its own thread.
  using ForwardHook = std::function<void(Module& module, const Inputs& inputs, const Value& output)>;
  void register_forward_hook(ForwardHook hook) { forward_hooks_.push_back(std::move(hook)); }

  /// A copy of the object that shares every tensor with this one. Cloneable implements it.
  virtual std::unique_ptr<Module> clone() const = 0;

  /// Each tensor once, even if it is registered under several names (tied weights): the first name counts.
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  std::vector<Tensor> parameters() const;
  std::vector<Tensor> buffers() const;
  /// Parameters and buffers, all names (tied ones too).
  NamedTensors state_dict() const;
  /// Copies values in. Throws Error listing missing and unexpected names and shapes that differ; then nothing was changed.
  void load_state_dict(const NamedTensors& state);

  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  /// Moves parameters and buffers; the optimizer must be made afterwards.
  void to(Device device);
  void to(DType dtype);
  /// Forgets all gradients (set_to_none) or fills them with zeros. Has no effect, and warns, in a replica of DataParallel.
  void zero_grad(bool set_to_none = true);

  /// Visits every registered tensor slot of this module and its children, depth first, names prefixed ("conv1.weight").
  /// `is_parameter` tells parameters from buffers. Assigning to the slot replaces the tensor (tied slots are visited each).
  using SlotVisitor = std::function<void(const std::string& name, Tensor& slot, bool is_parameter)>;
  void visit_slots(const SlotVisitor& visit, const std::string& prefix = "");
  /// Children, in order of registration.
  std::vector<std::pair<std::string, Module*>> named_children() const;

 protected:
  template <class Derived>
  void register_parameter(std::string name, Tensor Derived::*member) {
    static_cast<Derived*>(this)->*member = (static_cast<Derived*>(this)->*member).set_requires_grad();
    slots_.push_back({std::move(name), static_cast<Tensor Module::*>(member), true});
  }
  template <class Derived>
  void register_buffer(std::string name, Tensor Derived::*member) {
    slots_.push_back({std::move(name), static_cast<Tensor Module::*>(member), false});
  }
  template <class Derived, class Child>
  void register_module(std::string name, Child Derived::*member) {
    register_module(std::move(name), [member](Module& self) -> Module& { return static_cast<Derived&>(self).*member; });
  }
  /// For children that are not plain members.
  void register_module(std::string name, std::function<Module&(Module& self)> child) {
    children_.emplace_back(std::move(name), std::move(child));
  }

  Module() = default;
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;

 private:
  struct Slot {
    std::string name;
    Tensor Module::*member;
    bool is_parameter;
  };
  std::vector<Slot> slots_;
  std::vector<std::pair<std::string, std::function<Module&(Module&)>>> children_;
  std::vector<ForwardHook> forward_hooks_;
  bool training_ = true;
};

/// Without "module." in front of the names: what DataParallel or DistributedDataParallel saved can then be loaded without them. Names
/// that do not begin with `prefix` stay as they are.
NamedTensors consume_prefix_in_state_dict_if_present(NamedTensors state, const std::string& prefix = "module.");

/// Base of concrete modules: `class Net : public Cloneable<Net>`.
template <class Derived>
class Cloneable : public Module {
 public:
  std::unique_ptr<Module> clone() const override { return std::make_unique<Derived>(static_cast<const Derived&>(*this)); }
};

}  // namespace miniddp
