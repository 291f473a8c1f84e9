// The whole training step as one CUDA graph: launched with one call instead of dozens (--graph; CUDA.md, "One launch a step").
#pragma once

#include <memory>

#include "common/kernels/kernels.h"
#include "common/training/loop.h"

namespace miniddp {

/// Runs `step` on a GPU: the first batch as it is, for what is allocated only once (momentum, cuBLAS), the second one while it is
/// captured, all further ones by launching the graph. The losses are the same, bit for bit. A batch of another size (an epoch's last
/// one) runs as it is. What the step takes from the host, such as the learning rate, must not change.
class GraphedStep {
 public:
  /// Throws DeviceError if `device` is not a GPU.
  GraphedStep(TrainStep step, Device device);

  /// The batch is on the host, `step` gets it on the device. The loss that is returned is overwritten by the next call.
  Tensor operator()(const Batch& batch);

 private:
  TrainStep step_;
  Device device_;
  // A graph reads from the addresses it was captured with: each batch is copied there.
  Batch batch_;
  Tensor loss_;
  std::shared_ptr<CapturedWork> graph_;
};

}  // namespace miniddp
