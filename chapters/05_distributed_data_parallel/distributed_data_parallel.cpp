#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"

#include <algorithm>
#include <utility>

#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/simple_reducers.h"
#include "chapters/05_distributed_data_parallel/verify_model.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"

namespace miniddp {
namespace {

void check_device_ids(const DdpOptions& options, const std::vector<Tensor>& parameters) {
  check(options.device_ids.size() <= 1, "device_ids can only be None or contain a single element.");
  for (Device device : options.device_ids) {
    for (const Tensor& parameter : parameters) {
      check(device.type == DeviceType::cuda && parameter.device() == device,
            "device_ids only work with modules on a single GPU: expected parameters on {}, found {}; leave device_ids empty for the CPU",
            device.str(), parameter.describe());
    }
  }
}

void tensors_in(const Value& value, std::vector<Tensor>& found) {
  if (const Tensor* tensor = value.get_if<Tensor>()) found.push_back(*tensor);
  if (const auto* list = value.get_if<Value::List>()) {
    for (const Value& item : list->items) tensors_in(item, found);
  }
  if (const auto* tuple = value.get_if<Value::Tuple>()) {
    for (const Value& item : tuple->items) tensors_in(item, found);
  }
  if (const auto* dict = value.get_if<Value::Dict>()) {
    for (const auto& [key, item] : dict->items) tensors_in(item, found);
  }
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<Module> module, DdpOptions options, ProcessGroup* group)
    : module_(std::move(module)), options_(std::move(options)), group_(group != nullptr ? *group : default_process_group()) {
  NamedTensors named = module_->named_parameters();
  std::erase_if(named, [](const auto& entry) { return !entry.second.requires_grad(); });
  check(!named.empty(),
        "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.");
  std::vector<Tensor> parameters;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named) {
    names.push_back(name);
    parameters.push_back(parameter);
  }
  check_device_ids(options_, parameters);

  verify_model_across_ranks(group_, named);
  buffers_ = module_->buffers();
  std::vector<Tensor> state = module_->parameters();
  state.insert(state.end(), buffers_.begin(), buffers_.end());
  broadcast_coalesced(group_, state);

  switch (options_.kind) {
    case ReducerKind::after_backward: reducer_ = std::make_unique<AfterBackwardReducer>(group_, parameters); break;
    case ReducerKind::per_gradient: reducer_ = std::make_unique<PerGradientReducer>(group_, parameters); break;
    case ReducerKind::buckets:
      reducer_ = std::make_unique<Reducer>(group_, std::move(parameters), std::move(names), options_.reducer);
      break;
  }
  register_module("module", [](Module& self) -> Module& { return *static_cast<DistributedDataParallel&>(self).module_; });
}

std::unique_ptr<Module> DistributedDataParallel::clone() const {
  throw Error("a DistributedDataParallel cannot be copied: it is tied to its parameters' gradients; copy module() and wrap the copy");
}

Reducer& DistributedDataParallel::reducer() {
  check(options_.kind == ReducerKind::buckets, "this DistributedDataParallel averages without buckets");
  return static_cast<Reducer&>(*reducer_);
}

bool DistributedDataParallel::averages() const { return sync_ && grad_enabled(); }
bool DistributedDataParallel::sends_buffers() const { return options_.broadcast_buffers && send_buffers_ && !buffers_.empty(); }

void DistributedDataParallel::before_forward() {
  int buffers_root = 0;
  if (joining_ != nullptr && grad_enabled()) {
    const JoinHeader header = exchange_join_header(true);
    check(!joining_->throw_on_early_termination || header.active == group_.size(),
          "Detected at least one rank that exhausted inputs. Throwing across all ranks.");
    buffers_root = static_cast<int>(header.last_active);
    if (!joining_->divide_by_initial_world_size) reducer().set_divisor(static_cast<int>(header.active));
  }
  reducer_->prepare_for_forward(averages());
  if (sends_buffers()) {
    const Span span("buffers", buffers_[0].device());
    broadcast_coalesced(group_, buffers_, buffers_root);
  }
}

void DistributedDataParallel::after_forward(const Value& output) {
  send_buffers_ = averages();
  if (!averages()) return;
  std::vector<Tensor> outputs;
  tensors_in(output, outputs);
  reducer_->prepare_for_backward(outputs);
}

Tensor DistributedDataParallel::forward(const Tensor& input) { return forward_values({{input}, {}}).tensor(); }

Value DistributedDataParallel::forward_values(const Inputs& inputs) {
  before_forward();
  Value output = (*module_)(inputs);
  after_forward(output);
  return output;
}

// --- join ---------------------------------------------------------------------------------------------------------

DistributedDataParallel::JoinHeader DistributedDataParallel::exchange_join_header(bool active) {
  const bool rebuild = active && averages() && reducer().will_rebuild();
  const std::vector<int64_t> mine{active, active && averages(), active && sends_buffers(), rebuild};
  Tensor sums = Tensor::from(mine, {4}, module_->parameters()[0].device());
  group_.all_reduce(sums)->wait();
  Tensor last = Tensor::from(std::vector<int64_t>{active ? group_.rank() : -1}, {1}, sums.device());
  group_.all_reduce(last, ReduceOp::max)->wait();
  const std::vector<int64_t> all = sums.to_vector<int64_t>();
  return {all[0], all[1], all[2], all[3], last.item<int64_t>()};
}

void DistributedDataParallel::join(const std::function<void()>& loop, JoinOptions options) {
  check(options_.kind == ReducerKind::buckets, "join needs gradients that are averaged in buckets");
  struct Scope {
    DistributedDataParallel& ddp;
    ~Scope() {
      ddp.joining_ = nullptr;
      ddp.reducer().set_divisor(ddp.group_.size());
    }
  } scope{*this};
  joining_ = &options;
  loop();
  shadow_others();
}

void DistributedDataParallel::shadow_others() {
  int last_active = group_.rank();
  while (true) {
    const JoinHeader header = exchange_join_header(false);
    if (header.active == 0) break;
    check(!joining_->throw_on_early_termination, "Rank {} exhausted all inputs.", group_.rank());
    last_active = static_cast<int>(header.last_active);
    if (header.rebuild > 0) reducer().rebuild();
    if (header.buffers > 0) broadcast_coalesced(group_, buffers_, last_active);
    if (header.sync > 0) reducer().shadow_backward();
  }
  // Ranks that were active to the end agree on the highest of them.
  Tensor last = Tensor::from(std::vector<int64_t>{last_active}, {1}, module_->parameters()[0].device());
  group_.all_reduce(last, ReduceOp::max)->wait();
  std::vector<Tensor> state = module_->parameters();
  state.insert(state.end(), buffers_.begin(), buffers_.end());
  broadcast_coalesced(group_, state, static_cast<int>(last.item<int64_t>()));
}

}  // namespace miniddp
