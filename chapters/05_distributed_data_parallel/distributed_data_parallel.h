// DistributedDataParallel: one process for each device, each with the whole model; gradients are averaged during backward. As
// torch.nn.parallel.DistributedDataParallel.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "chapters/05_distributed_data_parallel/reducer.h"
#include "common/nn/module.h"

namespace miniddp {

/// The ladder that the lesson climbs.
enum class ReducerKind { after_backward, per_gradient, buckets };

struct DdpOptions {
  /// At most one entry, the device of the model; none for the CPU.
  std::vector<Device> device_ids = {};
  /// Before forward the buffers (BatchNorm's statistics) become rank 0's.
  bool broadcast_buffers = true;
  ReducerKind kind = ReducerKind::buckets;
  ReducerOptions reducer = {};
};

struct JoinOptions {
  /// Divide by the number of ranks at the start; otherwise by those that still have data.
  bool divide_by_initial_world_size = true;
  /// As soon as one rank runs out of data, all throw.
  bool throw_on_early_termination = false;
};

class DistributedDataParallel : public Module {
 public:
  /// Every rank calls it. Compares the models of all ranks (Error on all if they differ) and gives all rank 0's parameters and buffers.
  /// `group`: the default group if nullptr. Throws Error if no parameter requires a gradient, or for device_ids that do not fit.
  explicit DistributedDataParallel(std::shared_ptr<Module> module, DdpOptions options = {}, ProcessGroup* group = nullptr);

  Tensor forward(const Tensor& input) override;
  Value forward_values(const Inputs& inputs) override;
  /// Hooks belong to one object: it cannot be copied. Throws Error.
  std::unique_ptr<Module> clone() const override;

  /// The wrapped module: for evaluation on one rank, where forward through the wrapper would wait for the others.
  Module& module() { return *module_; }
  ProcessGroup& group() { return group_; }
  /// Throws Error unless the gradients are averaged in buckets.
  Reducer& reducer();
  /// Throws Error if there is one already, or gradients are not averaged in buckets.
  void register_comm_hook(CommHook hook) { reducer().register_comm_hook(std::move(hook)); }
  /// Throws Error if the last backward pass left parameters without a gradient: for the end of a run.
  void check_finished() const { reducer_->check_finished(); }

  /// Forward passes in this scope do not average; gradients accumulate locally.
  class NoSync {
   public:
    explicit NoSync(DistributedDataParallel& ddp) : ddp_(ddp), before_(std::exchange(ddp.sync_, false)) {}
    ~NoSync() { ddp_.sync_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DistributedDataParallel& ddp_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  /// Trains ranks with unequal numbers of batches: `loop` is this rank's own loop. A rank that is through takes part in the collectives of
  /// the others with zeros until the last one is through; then all get the last one's model. Buffers come from the highest rank that still
  /// has data (PyTorch's choice): what an exhausted rank holds is out of date.
  void join(const std::function<void()>& loop, JoinOptions options = {});

 private:
  void before_forward();
  void after_forward(const Value& output);
  bool averages() const;
  bool sends_buffers() const;
  /// What a step's collectives begin with while join() runs: who is still there and what they are about to do.
  struct JoinHeader {
    int64_t active, sync, buffers, rebuild, last_active;
  };
  JoinHeader exchange_join_header(bool active);
  void shadow_others();

  std::shared_ptr<Module> module_;
  DdpOptions options_;
  ProcessGroup& group_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<Tensor> buffers_;
  bool sync_ = true;            // false inside no_sync
  bool send_buffers_ = true;    // not after a forward pass that did not average
  const JoinOptions* joining_ = nullptr;
};

}  // namespace miniddp
