#include "chapters/05_distributed_data_parallel/sync_batch_norm.h"

#include <algorithm>

#include "chapters/04_process_group/init_process_group.h"
#include "common/autograd/node.h"

namespace miniddp {
namespace {

// Of all ranks together, per channel: how many values, their mean and their biased variance.
struct Statistics {
  double count = 0;
  Tensor mean, var;  // (C)
};

Statistics gather_statistics(ProcessGroup& group, const Tensor& x) {
  const auto channels = static_cast<size_t>(x.size(1));
  const int64_t values = x.numel() / std::max<int64_t>(x.size(1), 1);
  std::vector<double> mine(2 * channels + 1);
  if (values > 0) {
    Tensor mean = Tensor::empty({x.size(1)}, x.dtype(), x.device());
    Tensor var = Tensor::empty_like(mean);
    kernels(x.device().type).batch_norm_stats(x, mean, var);
    for (size_t c = 0; const double value : mean.to(DType::float64).to_vector<double>()) mine[c++] = value;
    for (size_t c = channels; const double value : var.to(DType::float64).to_vector<double>()) mine[c++] = value;
  }
  mine.back() = static_cast<double>(values);
  const Shape shape{static_cast<int64_t>(mine.size())};
  std::vector<Tensor> gathered;
  for (int r = 0; r < group.size(); ++r) gathered.push_back(Tensor::zeros(shape, DType::float64, x.device()));
  group.all_gather(gathered, Tensor::from(mine, shape, x.device()))->wait();

  std::vector<std::vector<double>> all;
  double count = 0;
  for (const Tensor& tensor : gathered) count += all.emplace_back(tensor.to_vector<double>()).back();
  check<ShapeError>(count > 1, "Expected more than 1 value per channel over all ranks when training, found {}", count);
  std::vector<double> mean(channels), var(channels);
  for (size_t c = 0; c < channels; ++c) {
    for (const auto& rank : all) mean[c] += rank.back() / count * rank[c];
    for (const auto& rank : all) {
      const double shift = rank[c] - mean[c];
      var[c] += rank.back() / count * (rank[channels + c] + shift * shift);
    }
  }
  const Shape one{x.size(1)};
  return {count, Tensor::from(mean, one, x.device()).to(x.dtype()), Tensor::from(var, one, x.device()).to(x.dtype())};
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(int64_t channels, double eps, double momentum, ProcessGroup* group)
    : BatchNorm2d(channels, eps, momentum), group_(group != nullptr ? group : &default_process_group()) {}

Tensor SyncBatchNorm::forward(const Tensor& x) {
  if (!is_training()) return BatchNorm2d::forward(x);
  check<ShapeError>(x.dim() >= 2 && x.size(1) == weight.numel(), "SyncBatchNorm: expected input (N, {}, …), found {}", weight.numel(),
                    x.describe());
  num_batches_tracked.fill_(num_batches_tracked.item<double>() + 1);
  Kernels& k = kernels(x.device().type);
  const Statistics all = gather_statistics(*group_, x);
  running_mean.mul_(1 - momentum_).add_(all.mean, momentum_);
  running_var.mul_(1 - momentum_).add_(all.var, momentum_ * all.count / (all.count - 1));
  Tensor invstd = Tensor::empty_like(all.var);
  k.inverse_std(all.var, eps_, invstd);
  Tensor y = Tensor::empty_like(x);
  k.batch_norm_forward(x, all.mean, invstd, weight, bias, y);

  record("SyncBatchNorm", {x, weight, bias}, y,
         [x = x.detach(), weight = weight.detach(), all, invstd, group = group_, &k](Grads grads) {
           Tensor sum_dy = Tensor::empty_like(weight), sum_dy_xmu = Tensor::empty_like(weight), dw = Tensor::empty_like(weight);
           k.batch_norm_backward_reduce(grads[0], x, all.mean, sum_dy, sum_dy_xmu);
           // weight and bias get this rank's own gradients: DistributedDataParallel averages them like all others.
           k.mul(sum_dy_xmu, invstd, dw);
           const Tensor db = sum_dy.clone();
           group->all_reduce(sum_dy)->wait();
           group->all_reduce(sum_dy_xmu)->wait();
           Tensor dx = Tensor::empty_like(x);
           k.batch_norm_backward_input(grads[0], x, all.mean, invstd, weight, sum_dy, sum_dy_xmu, all.count, dx);
           return Grads{dx, dw, db};
         });
  return y;
}

}  // namespace miniddp
