// The first two rungs of the ladder: gradients averaged without buckets. Read these before reducer.h.
#pragma once

#include <vector>

#include "chapters/04_process_group/process_group.h"
#include "chapters/05_distributed_data_parallel/gradient_reducer.h"

namespace miniddp {

/// Rung 1, after backward(): every gradient is divided by the number of ranks and summed over them, one after the other. A parameter
/// without a gradient is left out, so all ranks must use the same parameters.
void average_gradients(ProcessGroup& group, const std::vector<Tensor>& parameters);

/// Calls average_gradients at the end of every backward pass.
class AfterBackwardReducer : public GradientReducer {
 public:
  /// Hooks itself to the parameters; the destructor takes the hooks away.
  AfterBackwardReducer(ProcessGroup& group, std::vector<Tensor> parameters);
  ~AfterBackwardReducer() override;

 private:
  ProcessGroup& group_;
  std::vector<Tensor> parameters_;
  std::vector<int> hooks_;
};

/// Rung 2, inside backward(): as soon as a gradient is complete its all-reduce starts, and runs while backward goes on to the
/// layers below. At the end of backward everything has arrived.
class PerGradientReducer : public GradientReducer {
 public:
  PerGradientReducer(ProcessGroup& group, std::vector<Tensor> parameters);
  ~PerGradientReducer() override;

 private:
  void gradient_ready(Tensor& parameter);
  void finish();

  ProcessGroup& group_;
  std::vector<Tensor> parameters_;
  std::vector<int> hooks_;
  std::vector<WorkPtr> works_;
};

}  // namespace miniddp
