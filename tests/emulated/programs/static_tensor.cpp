// Case C14: a tensor on a GPU that is destroyed after main(), when the driver may have gone already. Prints nothing, exits with 0.
#include <memory>

#include "common/kernels/kernels.h"
#include "common/tensor/tensor.h"

using namespace miniddp;

namespace {
Tensor kept;
std::unique_ptr<CapturedWork> graph;
}  // namespace

int main() {
  if (device_count(DeviceType::cuda) == 0) return 77;
  const Device gpu{DeviceType::cuda, 0};
  kept = Tensor::full({13, 7}, 3, DType::float32, gpu);
  graph = kernels(DeviceType::cuda).capture(0, [] { kept.mul_(2); });
  graph->launch();
  return kept.to_vector<float>()[90] == 6 ? 0 : 1;
}
