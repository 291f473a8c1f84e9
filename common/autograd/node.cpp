#include "common/autograd/node.h"

#include <atomic>
#include <limits>
#include <utility>

#include "common/tensor/tensor_impl.h"

namespace miniddp {
namespace {

thread_local bool recording = true;

std::atomic<uint64_t> next_sequence = 1;

// Adds a gradient to its leaf and tells the hooks. Runs as soon as it can: its sequence is the largest.
std::shared_ptr<Node> accumulator_of(TensorImpl& leaf) {
  std::lock_guard lock(leaf.mutex);
  if (auto node = leaf.accumulator.lock()) return node;
  // The node keeps the leaf alive; the leaf knows the node only weakly, so there is no cycle.
  Tensor handle(leaf.shared_from_this());
  auto accumulate = [handle](Grads grads) mutable {
    TensorImpl& leaf = *handle.impl();
    if (grads[0].defined()) {
      NoGrad no_grad;
      if (leaf.grad.defined()) {
        leaf.grad.add_(grads[0]);
      } else {
        // A gradient that others still hold must not become this leaf's memory: each leaf owns its own.
        leaf.grad = grads[0].is_unique() ? grads[0] : grads[0].clone();
      }
    }
    std::map<int, Tensor::GradHook> hooks;
    {
      std::lock_guard lock(leaf.mutex);
      hooks = leaf.hooks;
    }
    for (auto& [number, hook] : hooks) hook(handle);
    return Grads{};
  };
  auto node = std::make_shared<Node>("AccumulateGrad", leaf.storage->device(), std::vector<Edge>{}, 1, std::move(accumulate),
                                     std::numeric_limits<uint64_t>::max());
  leaf.accumulator = node;
  return node;
}

}  // namespace

Node::Node(std::string name, Device device, std::vector<Edge> edges, int outputs, BackwardFunction backward, uint64_t sequence)
    : name_(std::move(name)),
      device_(device),
      edges_(std::move(edges)),
      outputs_(outputs),
      backward_(std::move(backward)),
      sequence_(sequence) {}

Node::~Node() {
  // A long chain of nodes is taken apart in a loop: letting each destroy the next would use one stack frame per operation.
  std::vector<Edge> doomed = std::move(edges_);
  while (!doomed.empty()) {
    std::shared_ptr<Node> node = std::move(doomed.back().node);
    doomed.pop_back();
    if (node && node.use_count() == 1) {
      for (Edge& edge : node->edges_) doomed.push_back(std::move(edge));
      node->edges_.clear();
    }
  }
}

Grads Node::run(Grads grads) const {
  check(backward_ != nullptr,
        "backward through {} a second time: its saved values were freed by the first backward; pass retain_graph = true there", name_);
  return backward_(std::move(grads));
}

void Node::release() { backward_ = nullptr; }

bool grad_enabled() { return recording; }

GradMode::GradMode(bool enabled) : before_(std::exchange(recording, enabled)) {}
GradMode::~GradMode() { recording = before_; }

bool needs_record(const std::vector<Tensor>& inputs) {
  if (!recording) return false;
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) return true;
  }
  return false;
}

Edge gradient_edge(const Tensor& tensor) {
  if (!tensor.requires_grad()) return {};
  TensorImpl& impl = *tensor.impl();
  if (impl.grad_fn) return {impl.grad_fn, impl.output_index};
  return {accumulator_of(impl), 0};
}

void record(std::string name, Device device, const std::vector<Tensor>& inputs, const std::vector<Tensor*>& outputs,
            BackwardFunction backward) {
  if (!needs_record(inputs)) return;
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Tensor& input : inputs) edges.push_back(gradient_edge(input));
  auto node = std::make_shared<Node>(std::move(name), device, std::move(edges), static_cast<int>(outputs.size()), std::move(backward),
                                     next_sequence++);
  for (size_t i = 0; i < outputs.size(); ++i) {
    TensorImpl& impl = *outputs[i]->impl();
    impl.grad_fn = node;
    impl.output_index = static_cast<int>(i);
  }
}

void record(std::string name, const std::vector<Tensor>& inputs, Tensor& output, BackwardFunction backward) {
  record(std::move(name), output.device(), inputs, {&output}, std::move(backward));
}

}  // namespace miniddp
