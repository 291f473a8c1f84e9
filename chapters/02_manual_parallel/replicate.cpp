#include "chapters/02_manual_parallel/replicate.h"

#include <map>

#include "chapters/02_manual_parallel/broadcast.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"

namespace miniddp {

Replicas replicate(const Module& network, const std::vector<Device>& devices) {
  check(!devices.empty(), "replicate needs at least one device");
  const Span span("replicate", devices[0]);

  // BEGIN SOLUTION 02.7 replicate
  // Every tensor once, whatever number of names it has; those with a gradient apart from those without.
  std::vector<Tensor> with_gradient, without;
  std::map<const TensorImpl*, size_t> place;
  for (const auto& [name, tensor] : network.state_dict()) {
    std::vector<Tensor>& list = tensor.requires_grad() ? with_gradient : without;
    if (place.emplace(tensor.impl(), list.size()).second) list.push_back(tensor);
  }

  const auto parameters = broadcast_coalesced(with_gradient, devices);
  const auto constants = broadcast_coalesced(without, devices, coalescing_bytes, "constants");  // buffers and what is frozen

  Replicas replicas;
  for (size_t d = 0; d < devices.size(); ++d) {
    replicas.push_back(network.clone());  // shares every tensor; now each is replaced by its copy
    replicas[d]->visit_slots([&](const std::string&, Tensor& slot, bool) {
      slot = (slot.requires_grad() ? parameters : constants)[d][place.at(slot.impl())];
    });
  }
  return replicas;
  // END SOLUTION
}

}  // namespace miniddp
