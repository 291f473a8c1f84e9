#include "chapters/05_distributed_data_parallel/buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace miniddp {

std::vector<std::vector<size_t>> compute_bucket_assignment_by_size(const std::vector<Tensor>& tensors, const std::vector<size_t>& limits,
                                                                   const std::vector<size_t>& order) {
  check(!limits.empty(), "expected at least one bucket limit");
  check(order.empty() || order.size() == tensors.size(), "expected an order of {} tensors, found {}", tensors.size(), order.size());
  struct Open {
    std::vector<size_t> members;
    size_t bytes = 0;
    size_t limit = 0;  // index into limits
  };
  // BEGIN SOLUTION 05.3 which gradients travel together
  std::map<std::pair<DType, Device>, Open> open;
  std::vector<std::vector<size_t>> closed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t index = order.empty() ? i : order[i];
    const Tensor& tensor = tensors.at(index);
    Open& bucket = open[{tensor.dtype(), tensor.device()}];
    bucket.members.push_back(index);
    bucket.bytes += tensor.nbytes();
    if (bucket.bytes < limits[bucket.limit]) continue;
    closed.push_back(std::exchange(bucket.members, {}));
    bucket.bytes = 0;
    bucket.limit = std::min(bucket.limit + 1, limits.size() - 1);
  }
  for (auto& [key, bucket] : open) {
    if (!bucket.members.empty()) closed.push_back(std::move(bucket.members));
  }
  if (order.empty()) {
    std::sort(closed.begin(), closed.end(),
              [](const auto& a, const auto& b) { return *std::min_element(a.begin(), a.end()) < *std::min_element(b.begin(), b.end()); });
  }
  return closed;
  // END SOLUTION
}

Bucket Bucket::make(const std::vector<Tensor>& tensors, std::vector<size_t> parameters) {
  Bucket bucket;
  int64_t numel = 0;
  for (size_t index : parameters) {
    bucket.offsets.push_back(numel);
    numel += tensors[index].numel();
  }
  const Tensor& first = tensors[parameters.at(0)];
  bucket.flat = Tensor::zeros({numel}, first.dtype(), first.device());
  bucket.parameters = std::move(parameters);
  return bucket;
}

Tensor Bucket::slice(size_t k, const Tensor& parameter) const {
  return flat.narrow(offsets[k], parameter.numel()).view(parameter.shape());
}

}  // namespace miniddp
