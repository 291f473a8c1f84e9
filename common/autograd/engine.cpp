#include "common/autograd/engine.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <queue>
#include <unordered_map>
#include <utility>

#include "common/autograd/node.h"
#include "common/core/recorder.h"
#include "common/core/worker.h"

namespace miniddp {
namespace {

// Gradients that arrived for one output of a node, with the sequence of the node that sent each.
using Arrivals = std::vector<std::pair<uint64_t, Tensor>>;

// Latest operation first, whatever the order of arrival: the sum must not depend on which worker was faster.
Tensor sum_of(Arrivals& arrivals) {
  std::stable_sort(arrivals.begin(), arrivals.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Tensor total;
  bool own = false;
  for (auto& [sequence, grad] : arrivals) {
    if (!grad.defined()) continue;
    if (!total.defined()) {
      total = std::move(grad);
      continue;
    }
    if (!own) {
      total = total.is_unique() ? total : total.clone();
      own = true;
    }
    total.add_(grad);
  }
  arrivals.clear();
  return total;
}

// One call of backward().
class Run {
 public:
  Run(const std::vector<Tensor>& roots, std::vector<Tensor> gradients, bool retain_graph) : retain_graph_(retain_graph) {
    for (size_t i = 0; i < roots.size(); ++i) add_root(roots[i], std::move(gradients[i]));
    count_dependencies();
    for (auto& [node, state] : states_) {
      if (state.missing == 0) ready_[node->device()].push(node);
    }
  }

  void execute() {
    Run* outer = std::exchange(current_, this);
    if (devices_ <= 1) {
      for (auto& [device, queue] : ready_) drain(device, queue);
    } else {
      const Span waiting(nullptr, {});  // the workers record their own
      std::unique_lock lock(mutex_);
      for (auto& [device, queue] : ready_) wake(device);
      done_.wait(lock, [this] { return running_ == 0; });
    }
    current_ = outer;
    if (error_) std::rethrow_exception(error_);
    for (size_t i = 0; i < callbacks_.size(); ++i) callbacks_[i]();
  }

  void add_callback(std::function<void()> callback) {
    std::lock_guard lock(mutex_);
    callbacks_.push_back(std::move(callback));
  }

  static Run* current() { return current_; }

 private:
  struct State {
    int missing = 0;               // gradients that have not arrived yet
    std::vector<Arrivals> arrived;  // one for each output of the node
  };
  struct Earlier {
    bool operator()(const Node* a, const Node* b) const { return a->sequence() < b->sequence(); }
  };
  struct Queue : std::priority_queue<Node*, std::vector<Node*>, Earlier> {
    bool busy = false;  // a worker is emptying it
  };

  void add_root(const Tensor& root, Tensor gradient) {
    check(root.requires_grad(), "backward needs a tensor with a history; {} does not require a gradient", root.describe());
    if (!gradient.defined()) {
      check<ShapeError>(root.numel() == 1, "backward without a gradient needs a scalar, found {}", root.describe());
      gradient = Tensor::ones(root.shape(), root.dtype(), root.device());
    }
    check<ShapeError>(gradient.shape() == root.shape() && gradient.dtype() == root.dtype() && gradient.device() == root.device(),
                      "backward: expected a gradient like its tensor, {}, found {}", root.describe(), gradient.describe());
    Edge edge = gradient_edge(root);
    roots_.push_back(edge.node);
    state_of(edge.node.get()).arrived[edge.index].emplace_back(0, std::move(gradient));
  }

  State& state_of(Node* node) {
    State& state = states_[node];
    if (state.arrived.empty()) state.arrived.resize(node->outputs());
    return state;
  }

  void count_dependencies() {
    std::vector<Node*> stack;
    std::unordered_map<Node*, bool> seen;
    std::map<Device, bool> devices;
    for (auto& root : roots_) {
      if (!std::exchange(seen[root.get()], true)) stack.push_back(root.get());
    }
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      devices[node->device()] = true;
      for (const Edge& edge : node->edges()) {
        if (!edge.node) continue;
        ++state_of(edge.node.get()).missing;
        if (!std::exchange(seen[edge.node.get()], true)) stack.push_back(edge.node.get());
      }
    }
    devices_ = devices.size();
  }

  // Called with the lock held: makes sure a worker looks at the device's queue.
  void wake(Device device) {
    Queue& queue = ready_[device];
    if (queue.busy || queue.empty()) return;
    queue.busy = true;
    ++running_;
    worker_of("backward", device, tier_).submit([this, device, &queue] {
      Run* outer = std::exchange(current_, this);
      for (bool more = true; more;) {
        drain(device, queue);
        std::lock_guard lock(mutex_);
        more = !queue.empty() && !error_;
        if (more) continue;
        queue.busy = false;
        current_ = outer;
        // Notified under the lock: the caller may destroy this object as soon as it sees zero.
        if (--running_ == 0) done_.notify_all();
      }
    });
  }

  void drain(Device device, Queue& queue) {
    try {
      const Span span("backward", device);
      run_ready(queue);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  void run_ready(Queue& queue) {
    NoGrad no_grad;
    std::unique_lock lock(mutex_);
    while (!queue.empty() && !error_) {
      Node* node = queue.top();
      queue.pop();
      std::vector<Arrivals> arrived = std::move(states_.at(node).arrived);
      lock.unlock();
      Grads out = run_node(*node, arrived);
      lock.lock();
      deliver(*node, out);
    }
  }

  Grads run_node(Node& node, std::vector<Arrivals>& arrived) const {
    Grads grads;
    bool any = false;
    for (Arrivals& each : arrived) {
      grads.push_back(sum_of(each));
      any = any || grads.back().defined();
    }
    if (!any) return Grads(node.edges().size());
    Grads out = node.run(std::move(grads));
    check(out.size() == node.edges().size(), "backward of {}: expected {} gradients, found {}", node.name(), node.edges().size(),
          out.size());
    // A leaf's accumulator belongs to the leaf, not to this graph.
    if (!retain_graph_ && !node.edges().empty()) node.release();
    return out;
  }

  // Called with the lock held.
  void deliver(const Node& node, Grads& grads) {
    for (size_t i = 0; i < grads.size(); ++i) {
      const Edge& edge = node.edges()[i];
      if (!edge.node) continue;
      State& state = states_.at(edge.node.get());
      state.arrived[edge.index].emplace_back(node.sequence(), std::move(grads[i]));
      if (--state.missing > 0) continue;
      const Device device = edge.node->device();
      ready_[device].push(edge.node.get());
      if (devices_ > 1) wake(device);
    }
  }

  const bool retain_graph_;
  const int tier_ = next_tier();
  size_t devices_ = 0;
  std::vector<std::shared_ptr<Node>> roots_;
  std::unordered_map<Node*, State> states_;
  std::map<Device, Queue> ready_;
  std::mutex mutex_;
  std::condition_variable done_;
  int running_ = 0;  // workers at work
  std::exception_ptr error_;
  std::vector<std::function<void()>> callbacks_;

  static thread_local Run* current_;
};

thread_local Run* Run::current_ = nullptr;

}  // namespace

void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& gradients, bool retain_graph) {
  check(gradients.empty() || gradients.size() == roots.size(), "backward: expected {} gradients, found {}", roots.size(),
        gradients.size());
  std::vector<Tensor> seeds = gradients;
  seeds.resize(roots.size());
  NoGrad no_grad;
  Run(roots, std::move(seeds), retain_graph).execute();
}

void queue_backward_callback(std::function<void()> callback) {
  check(Run::current() != nullptr, "queue_backward_callback was called outside a backward pass");
  Run::current()->add_callback(std::move(callback));
}

}  // namespace miniddp
