#include "chapters/05_distributed_data_parallel/verify_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "chapters/05_distributed_data_parallel/buckets.h"

namespace miniddp {
namespace {

// Every rank's list of numbers. Lists may differ in length.
std::vector<std::vector<int64_t>> gather_lists(ProcessGroup& group, const std::vector<int64_t>& mine, Device device) {
  const auto gather = [&](const std::vector<int64_t>& values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    std::vector<Tensor> all;
    for (int r = 0; r < group.size(); ++r) all.push_back(Tensor::zeros(shape, DType::int64, device));
    group.all_gather(all, Tensor::from(values, shape, device))->wait();
    return all;
  };
  const std::vector<Tensor> lengths = gather({static_cast<int64_t>(mine.size())});
  int64_t longest = 0;
  for (const Tensor& length : lengths) longest = std::max(longest, length.item<int64_t>());
  std::vector<int64_t> padded = mine;
  padded.resize(static_cast<size_t>(longest));
  const std::vector<Tensor> all = gather(padded);
  std::vector<std::vector<int64_t>> lists;
  for (int r = 0; r < group.size(); ++r) {
    std::vector<int64_t> list = all[static_cast<size_t>(r)].to_vector<int64_t>();
    list.resize(static_cast<size_t>(lengths[static_cast<size_t>(r)].item<int64_t>()));
    lists.push_back(std::move(list));
  }
  return lists;
}

std::string sizes_text(const std::vector<int64_t>& sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

}  // namespace

void verify_model_across_ranks(ProcessGroup& group, const NamedTensors& parameters) {
  const Device device = parameters.at(0).second.device();
  const auto counts = gather_lists(group, {static_cast<int64_t>(parameters.size())}, device);
  for (int r = 1; r < group.size(); ++r) {
    check(counts[static_cast<size_t>(r)] == counts[0],
          "DDP expects same model across all ranks, but Rank 0 has {} params, while rank {} has inconsistent {} params.", counts[0][0], r,
          counts[static_cast<size_t>(r)][0]);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters[i].second;
    std::vector<int64_t> mine(parameter.shape());
    mine.push_back(static_cast<int64_t>(parameter.dtype()));
    auto all = gather_lists(group, mine, device);
    for (int r = 1; r < group.size(); ++r) {
      auto& theirs = all[static_cast<size_t>(r)];
      if (theirs == all[0]) continue;
      const bool dtype = theirs.back() != all[0].back();
      const auto text = [](std::vector<int64_t> list) {
        list.pop_back();
        return sizes_text(list);
      };
      throw Error("[{}]: params[{}] ({}) in rank {} with sizes {} appears not to match sizes of the same param in rank 0, {}{}", group.rank(), i,
                  parameters[i].first, r, text(theirs), text(all[0]), dtype ? " (the dtypes differ)" : "");
    }
  }
}

void broadcast_coalesced(ProcessGroup& group, const std::vector<Tensor>& tensors, int root) {
  // BEGIN SOLUTION 05.9 the run whose ranks begin apart
  std::map<DType, std::vector<size_t>> by_dtype;
  for (size_t i = 0; i < tensors.size(); ++i) by_dtype[tensors[i].dtype()].push_back(i);
  for (auto& [dtype, indices] : by_dtype) {
    const Bucket bucket = Bucket::make(tensors, indices);
    for (size_t k = 0; k < indices.size(); ++k) bucket.slice(k, tensors[indices[k]]).copy_(tensors[indices[k]].detach());
    group.broadcast(bucket.flat, root)->wait();
    for (size_t k = 0; k < indices.size(); ++k) Tensor(tensors[indices[k]]).copy_(bucket.slice(k, tensors[indices[k]]));
  }
  // END SOLUTION
}

}  // namespace miniddp
