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

std::vector<std::string> gather_texts(ProcessGroup& group, const std::string& text, Device device) {
  Tensor longest = Tensor::from(std::vector<int64_t>{static_cast<int64_t>(text.size())}, {1}, device);
  group.all_reduce(longest, ReduceOp::max)->wait();
  // One length for all: the texts end with a zero byte or at the end.
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.resize(static_cast<size_t>(longest.item<int64_t>()));
  const Tensor mine = Tensor::from(bytes, {static_cast<int64_t>(bytes.size())}, device);
  std::vector<Tensor> all;
  for (int rank = 0; rank < group.size(); ++rank) all.push_back(Tensor::empty_like(mine));
  group.all_gather(all, mine)->wait();
  std::vector<std::string> texts;
  for (const Tensor& one : all) {
    const std::vector<uint8_t> found = one.to_vector<uint8_t>();
    texts.emplace_back(found.begin(), std::find(found.begin(), found.end(), 0));
  }
  return texts;
}

}  // namespace miniddp
