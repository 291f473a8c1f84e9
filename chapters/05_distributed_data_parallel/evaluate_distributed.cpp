#include "chapters/05_distributed_data_parallel/evaluate_distributed.h"

#include <algorithm>

namespace miniddp {

TestResult sum_over_ranks(ProcessGroup& group, const TestResult& mine, Device device) {
  const auto total = static_cast<double>(mine.total);
  const std::vector<double> sums{mine.average_loss * total, static_cast<double>(mine.correct), total};
  Tensor tensor = Tensor::from(sums, {3}, device);
  group.all_reduce(tensor)->wait();
  const std::vector<double> all = tensor.to_vector<double>();
  return {all[0] / std::max(all[2], 1.0), static_cast<int64_t>(all[1]), static_cast<int64_t>(all[2])};
}

Tensor mean_over_ranks(ProcessGroup& group, const Tensor& value) {
  if (group.size() == 1) return value.detach();
  Tensor mean = value.detach().clone();
  group.all_reduce(mean, ReduceOp::avg)->wait();
  return mean;
}

}  // namespace miniddp
