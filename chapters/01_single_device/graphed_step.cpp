#include "chapters/01_single_device/graphed_step.h"

#include <utility>

namespace miniddp {

GraphedStep::GraphedStep(TrainStep step, Device device) : step_(std::move(step)), device_(device) {
  check<DeviceError>(device.type == DeviceType::cuda, "--graph captures the step of a GPU, found {}; use --device cuda", device.str());
}

Tensor GraphedStep::operator()(const Batch& batch) {
  const bool first = !batch_.images.defined();
  if (first || batch.size() != batch_.size()) {
    Batch here{batch.images.to(device_), batch.labels.to(device_), batch.indices};
    if (first) batch_ = here;
    return step_(here);
  }
  batch_.images.copy_(batch.images);
  batch_.labels.copy_(batch.labels);
  if (!graph_) {
    graph_ = kernels(device_.type).capture(device_.index, [this] { loss_ = step_(batch_); });
  }
  graph_->launch();
  return loss_;
}

}  // namespace miniddp
