// SyncBatchNorm: BatchNorm whose statistics are those of all ranks' batches together.
#pragma once

#include "chapters/04_process_group/process_group.h"
#include "common/nn/layers.h"

namespace miniddp {

/// While training, mean and variance are combined over the ranks, weighted by how many values each has (none is allowed), and backward sums
/// what depends on them. Evaluation does not communicate. Unlike PyTorch's it works on the CPU too.
class SyncBatchNorm : public BatchNorm2d {
 public:
  /// `group`: the default group if nullptr.
  explicit SyncBatchNorm(int64_t channels, double eps = 1e-5, double momentum = 0.1, ProcessGroup* group = nullptr);
  Tensor forward(const Tensor& x) override;
  std::unique_ptr<Module> clone() const override { return std::make_unique<SyncBatchNorm>(*this); }

 private:
  ProcessGroup* group_;
};

}  // namespace miniddp
