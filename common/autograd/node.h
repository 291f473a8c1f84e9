// The tape: one Node for each recorded operation, linked to the nodes of its inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp {

/// Gradients, one for each output (going in) or input (coming out). An undefined tensor stands for zeros.
using Grads = std::vector<Tensor>;
/// Turns the gradients of an operation's outputs into those of its inputs. It owns what the operation saved.
using BackwardFunction = std::function<Grads(Grads grads)>;

/// Where a gradient goes: input `index` of `node`. An empty node: nobody needs it.
struct Edge {
  std::shared_ptr<Node> node;
  int index = 0;
};

/// A recorded operation. Backward runs nodes by descending sequence (latest first), as PyTorch's engine does.
class Node {
 public:
  Node(std::string name, Device device, std::vector<Edge> edges, int outputs, BackwardFunction backward, uint64_t sequence);
  ~Node();

  const std::string& name() const { return name_; }
  /// The device whose worker runs the backward function.
  Device device() const { return device_; }
  const std::vector<Edge>& edges() const { return edges_; }
  /// Outputs of the forward operation: gradients that backward takes.
  int outputs() const { return outputs_; }
  uint64_t sequence() const { return sequence_; }

  /// Throws Error if release() was called before.
  Grads run(Grads grads) const;
  /// Frees what the operation saved.
  void release();

 private:
  std::string name_;
  Device device_;
  std::vector<Edge> edges_;
  int outputs_;
  BackwardFunction backward_;
  uint64_t sequence_;
};

/// Records an operation: gives `outputs` a history if gradients are enabled and an input requires one. Otherwise does nothing and
/// `backward` is dropped. `device` runs the backward function.
void record(std::string name, Device device, const std::vector<Tensor>& inputs, const std::vector<Tensor*>& outputs,
            BackwardFunction backward);
/// The usual case: one output, backward on its device.
void record(std::string name, const std::vector<Tensor>& inputs, Tensor& output, BackwardFunction backward);

/// True if an operation on `inputs` would be recorded: kernels' by-products are worth saving.
bool needs_record(const std::vector<Tensor>& inputs);

/// The node that takes a tensor's gradient: its grad_fn, or the accumulator of a leaf that requires a gradient; else none.
Edge gradient_edge(const Tensor& tensor);

/// Gradient recording of the calling thread.
bool grad_enabled();

/// Switches recording on or off for a scope.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

/// torch.no_grad() for a scope.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace miniddp
