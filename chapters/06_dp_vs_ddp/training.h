// The ways to train that are compared. The step is the same in all of them; only the module around the network differs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"
#include "chapters/06_dp_vs_ddp/options.h"
#include "common/data/data_loader.h"
#include "common/nn/functional.h"
#include "common/optim/sgd.h"

namespace miniddp {

struct DdpWay {
  std::string name, title;
  DdpOptions options;
};
/// The ladder of reducers.
std::vector<DdpWay> ddp_ways();

/// A network in training.
class Training {
 public:
  /// One device.
  Training(const CompareOptions& options, Device device);
  /// DataParallel.
  Training(const CompareOptions& options, const std::vector<Device>& devices);
  /// DistributedDataParallel: this rank's part.
  Training(const CompareOptions& options, Device device, const DdpOptions& ddp);

  /// One step on this process's batch; returns its own loss. The gradients are still there afterwards.
  Tensor step(const Batch& batch);

  const Module& network() const { return *network_; }
  const SGD& optimizer() const { return *optimizer_; }
  Device first() const { return first_; }
  /// Elements of each all-reduce of a step, in the order in which they start; empty without DDP. After the first step.
  std::vector<int64_t> reduced_elements() const;
  /// Bytes of the flat buckets.
  int64_t bucket_bytes() const;

 private:
  Training(const CompareOptions& options);
  void make_optimizer(const CompareOptions& options);

  std::shared_ptr<Module> network_;
  std::unique_ptr<Module> wrapper_;  // none: one device
  DistributedDataParallel* ddp_ = nullptr;
  ReducerKind kind_ = ReducerKind::buckets;
  bool whole_batch_ = false;  // the wrapper moves the images itself
  functional::LossFunction loss_;
  Device first_;
  std::unique_ptr<SGD> optimizer_;
};

/// This process's batches, epoch after epoch: of every global batch its share, in DistributedSampler's order. Batches that are not full are
/// left out.
class BatchStream {
 public:
  BatchStream(const ImageDataset& images, int64_t global_batch, int rank = 0, int world = 1);
  ~BatchStream();
  /// Good until the next call.
  const Batch& next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace miniddp
