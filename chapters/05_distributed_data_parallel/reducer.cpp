#include "chapters/05_distributed_data_parallel/reducer.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "common/autograd/engine.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"
#include "common/core/warning.h"
#include "common/kernels/kernels.h"

namespace miniddp {
namespace {

constexpr const char* graph_changed =
    "Your training graph has changed in this iteration, e.g., one parameter is unused in first iteration, but then got used in the second "
    "iteration. this is not compatible with static_graph set to True.";

}  // namespace

Reducer::Reducer(ProcessGroup& group, std::vector<Tensor> parameters, std::vector<std::string> names, ReducerOptions options)
    : group_(group),
      parameters_(std::move(parameters)),
      names_(std::move(names)),
      options_(options),
      divisor_(group.size()),
      ready_(parameters_.size()),
      used_(parameters_.size()) {
  if (may_rebuild()) {
    // The first pass tells the order of the gradients; until then one bucket must do.
    assign(compute_bucket_assignment_by_size(parameters_, {std::numeric_limits<size_t>::max()}));
  } else {
    auto assignment = compute_bucket_assignment_by_size(parameters_, {first_bucket_bytes, options_.bucket_cap_bytes});
    std::reverse(assignment.begin(), assignment.end());  // backward comes from the last layer
    assign(assignment);
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    hook_numbers_.push_back(parameters_[i].register_post_accumulate_grad_hook([this, i](Tensor&) { gradient_ready(i); }));
  }
}

Reducer::~Reducer() {
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].remove_hook(hook_numbers_[i]);
}

void Reducer::assign(const std::vector<std::vector<size_t>>& assignment) {
  std::vector<Bucket> buckets;
  places_.resize(parameters_.size());
  for (size_t b = 0; b < assignment.size(); ++b) {
    buckets.push_back(Bucket::make(parameters_, assignment[b]));
    for (size_t k = 0; k < assignment[b].size(); ++k) {
      const size_t index = assignment[b][k];
      places_[index] = {b, k};
      // A gradient that lives in an old bucket moves, with what it has accumulated.
      Tensor grad = parameters_[index].grad();
      if (!options_.gradient_as_bucket_view || !grad.defined()) continue;
      Tensor slice = buckets[b].slice(k, parameters_[index]);
      slice.copy_(grad);
      Tensor(parameters_[index]).set_grad(slice);
    }
  }
  buckets_ = std::move(buckets);
}

void Reducer::rebuild() {
  // Every rank must have the same buckets, so rank 0's order counts for all. What it did not see goes behind, last layer first.
  std::vector<int64_t> order(ready_order_.begin(), ready_order_.end());
  for (size_t i = parameters_.size(); i-- > 0;) {
    if (std::find(order.begin(), order.end(), static_cast<int64_t>(i)) == order.end()) order.push_back(static_cast<int64_t>(i));
  }
  Tensor shared = Tensor::from(order, {static_cast<int64_t>(order.size())}, parameters_[0].device());
  group_.broadcast(shared, 0)->wait();
  order = shared.to_vector<int64_t>();
  rebuilt_ = true;
  assign(compute_bucket_assignment_by_size(parameters_, {first_bucket_bytes, options_.bucket_cap_bytes}, {order.begin(), order.end()}));
}

// --- one iteration ------------------------------------------------------------------------------------------------

void Reducer::prepare_for_forward(bool sync) {
  check_finished();
  if (sync && will_rebuild()) rebuild();
  sync_ = sync;
}

void Reducer::prepare_for_backward(const std::vector<Tensor>& outputs) {
  if (!sync_) return;
  std::fill(ready_.begin(), ready_.end(), 0);
  std::fill(used_.begin(), used_.end(), 0);
  missing_.clear();
  for (const Bucket& bucket : buckets_) missing_.push_back(bucket.parameters.size());
  pending_.clear();
  if (options_.static_graph) {
    for (size_t i = 0; i < static_users_.size(); ++i) {
      if (static_users_[i] == 0) mark_ready(i);
    }
  } else if (options_.find_unused_parameters) {
    skip_unreachable(outputs);
  }
}

// Marks the parameters that cannot be reached from the outputs.
void Reducer::skip_unreachable(const std::vector<Tensor>& outputs) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> stack;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) stack.push_back(node);
  };
  std::vector<Edge> keep_alive;
  for (const Tensor& output : outputs) visit(keep_alive.emplace_back(gradient_edge(output)).node.get());
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->edges()) visit(edge.node.get());
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!seen.contains(gradient_edge(parameters_[i]).node.get())) mark_ready(i);
  }
}

void Reducer::gradient_ready(size_t index) {
  // BEGIN SOLUTION 05.5 a gradient is complete
  if (!sync_) return;
  if (!std::exchange(running_, true)) queue_backward_callback([this] { backward_done(); });
  check_not_ready(index);
  used_[index] = 1;
  if (!first_pass_done_) ready_order_.push_back(index);
  // With a static graph nobody knows in the first pass what will come: everything is sent at its end.
  if (options_.static_graph && !first_pass_done_) return;
  mark_ready(index);
  if (options_.overlap) start_full_buckets();
  // END SOLUTION
}

void Reducer::mark_ready(size_t index) {
  fill_slice(index);
  ready_[index] = 1;
  --missing_[places_[index].bucket];
}

// Puts the gradient, divided, into its bucket; zeros if this rank did not use the parameter.
void Reducer::fill_slice(size_t index) {
  // BEGIN SOLUTION 05.4 a gradient goes into its bucket
  Tensor parameter = parameters_[index];
  const auto [bucket, slot] = places_[index];
  Tensor slice = buckets_[bucket].slice(slot, parameter);
  const Tensor grad = parameter.grad();
  if (!used_[index] || !grad.defined()) {
    // An old gradient that lives in the slice must survive in case nobody used the parameter.
    if (grad.defined() && grad.shares_storage_with(slice)) parameter.set_grad(grad.clone());
    slice.zero_();
    return;
  }
  // Division before the sum, by one multiplication with the reciprocal. A hook divides itself.
  kernels(slice.device().type).scale(grad, hook_ ? 1.0 : 1.0 / divisor_, slice);
  if (options_.gradient_as_bucket_view) parameter.set_grad(slice);
  // END SOLUTION
}

// Strictly in order: a full bucket waits for the ones before it.
void Reducer::start_full_buckets() {
  // BEGIN SOLUTION 05.6 the run that leaves buckets behind
  while (pending_.size() < buckets_.size() && missing_[pending_.size()] == 0) {
    Tensor flat = buckets_[pending_.size()].flat;
    if (hook_) {
      pending_.push_back(hook_(group_, flat));
    } else {
      pending_.push_back([&group = group_, work = group_.all_reduce(flat), flat] {
        wait_and_count(group, *work, flat.device());
        return flat;
      });
    }
  }
  // END SOLUTION
}

void Reducer::backward_done() {
  if (options_.static_graph && !first_pass_done_) {
    for (size_t i = 0; i < parameters_.size(); ++i) mark_ready(i);
  }
  start_full_buckets();
  if (pending_.size() == buckets_.size()) {
    finish();
  } else {
    // As PyTorch: gradients stay local now, and the next forward pass is an error. Saying so at once costs nothing.
    warn(fmt::format("rank {}: these parameters got no gradient, so nothing was averaged: {}", group_.rank(), missing_names()));
  }
}

void Reducer::finish() {
  const Span span("communication", parameters_[0].device());
  std::vector<int64_t> users(parameters_.size(), 1);
  if (options_.static_graph) {
    if (!first_pass_done_) static_users_ = count_users();
    users = static_users_;
  } else if (options_.find_unused_parameters) {
    users = count_users();
    const bool all_used = std::find(users.begin(), users.end(), 0) == users.end();
    if (all_used && !std::exchange(warned_all_used_, true)) {
      warn("find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the forward pass");
    }
  }
  for (size_t b = 0; b < buckets_.size(); ++b) store_result(b, pending_[b](), users);
  pending_.clear();
  first_pass_done_ = true;
  running_ = false;
  sync_ = false;  // a second backward over the same forward adds local gradients only, as in PyTorch
}

void Reducer::store_result(size_t b, const Tensor& result, const std::vector<int64_t>& users) {
  Bucket& bucket = buckets_[b];
  if (!result.is_same(bucket.flat)) bucket.flat.copy_(result);
  for (size_t k = 0; k < bucket.parameters.size(); ++k) {
    const size_t index = bucket.parameters[k];
    if (users[index] == 0) continue;  // used nowhere: its gradient stays what it was
    Tensor parameter = parameters_[index];
    Tensor slice = bucket.slice(k, parameter);
    if (options_.gradient_as_bucket_view) {
      parameter.set_grad(slice);
    } else if (parameter.grad().defined()) {
      parameter.grad().copy_(slice);
    } else {
      parameter.set_grad(slice.clone());
    }
  }
}

std::vector<int64_t> Reducer::count_users() {
  const std::vector<int64_t> mine(used_.begin(), used_.end());
  Tensor counts = Tensor::from(mine, {static_cast<int64_t>(mine.size())}, parameters_[0].device());
  group_.all_reduce(counts)->wait();
  return counts.to_vector<int64_t>();
}

void Reducer::shadow_backward() {
  std::fill(used_.begin(), used_.end(), 0);
  missing_.assign(buckets_.size(), 0);
  pending_.clear();
  for (Bucket& bucket : buckets_) bucket.flat.zero_();
  start_full_buckets();
  if ((options_.static_graph && !first_pass_done_) || (options_.find_unused_parameters && !options_.static_graph)) count_users();
  for (PendingBucket& pending : pending_) pending();
  pending_.clear();
  first_pass_done_ = true;
}

// --- errors -------------------------------------------------------------------------------------------------------

void Reducer::check_not_ready(size_t index) const {
  if (!ready_[index]) return;
  check(!options_.static_graph, "{}", graph_changed);
  throw Error("Expected to mark a variable ready only once. Parameter {} got a gradient although it was found unused or was complete "
              "already in this iteration; it must not be used outside of forward, nor by two backward passes at once.", names_[index]);
}

std::string Reducer::missing_names() const {
  std::vector<std::string> names;
  std::vector<size_t> indices;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (ready_[i]) continue;
    names.push_back(names_[i]);
    indices.push_back(i);
  }
  return fmt::format("{} (indices {})", fmt::join(names, ", "), fmt::join(indices, " "));
}

void Reducer::check_finished() const {
  if (!running_) return;
  check(!options_.static_graph, "{} Without a gradient on rank {}: {}", graph_changed, group_.rank(), missing_names());
  throw Error(
      "Expected to have finished reduction in the prior iteration before starting a new one. Some parameters took no part in the loss, so "
      "their buckets never became full; pass find_unused_parameters if that is meant, and let all outputs of forward take part in the loss. "
      "Parameters which did not receive grad for rank {}: {}",
      group_.rank(), missing_names());
}

void Reducer::register_comm_hook(CommHook hook) {
  check(!hook_, "register_comm_hook can only be called once.");
  hook_ = std::move(hook);
}

}  // namespace miniddp
