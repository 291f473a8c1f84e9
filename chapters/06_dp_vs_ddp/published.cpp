#include "chapters/06_dp_vs_ddp/published.h"

#include <algorithm>

#include "chapters/06_dp_vs_ddp/cost_model.h"

namespace miniddp {
namespace {

// Gradients in DDP's buckets of 25 MiB, complete at even distances during backward.
std::vector<Workload::Bucket> even_buckets(double bytes) {
  const int count = static_cast<int>(bytes / (25 << 20)) + 1;
  std::vector<Workload::Bucket> buckets;
  for (int i = 1; i <= count; ++i) buckets.push_back({bytes / count, static_cast<double>(i) / count});
  return buckets;
}

// ResNet-50 on ImageNet: 8 GPUs of one server took 29 hours for 90 epochs with batches of 256, 32 such servers one hour with batches of 8192.
PublishedCheck imagenet_in_one_hour() {
  const double images = 90 * 1'281'167.0, step = 29 * 3600 / (images / 256);
  Workload work;
  work.seconds_per_sample = step;  // a server is the model's device, and its batch one sample
  work.buckets = even_buckets(25.6e6 * 4);
  const Link ethernet{"50 Gbit/s Ethernet", 30e-6, 50e9 / 8};
  const double with = step / ddp_step(work, ethernet, AllReduce::ring, true, 32, 1).total();
  const double without = step / ddp_step(work, ethernet, AllReduce::ring, false, 32, 1).total();
  return {"ResNet-50, 8 to 256 GPUs: scaling efficiency", "Goyal et al. 2017, arXiv 1706.02677", 90, 100 * without, 100 * with, "%",
          "25.6 M parameters, ring over 32 servers, 50 Gbit/s, 30 us; nothing overlaps, or all that can"};
}

// Where the model ought to be at its best: what DP does one after the other and DDP beside backward is known to the byte.
PublishedCheck gpt2_data_parallel() {
  const double parameters = 124.44e6 * 4, steps = 200, ddp_seconds = 101.9;
  Workload work;
  work.buckets = even_buckets(parameters);
  // Two Turing cards with two NVLinks: what NCCL's all-reduce reached on such a pair.
  const Link nvlink{"two NVLinks of Turing", 5e-6, 21.5e9};
  // How long a step computes: chosen so that DDP takes what was published.
  work.seconds_per_sample = ddp_seconds / steps;
  work.seconds_per_sample -= ddp_step(work, nvlink, AllReduce::ring, true, 2, 1).exposed;
  const double seconds = steps * dp_step(work, nvlink, 2, 1).total();
  return {"GPT-2, 2 GPUs with NVLink, 200 steps: DP, given DDP's 101.9 s", "Hugging Face, perf_train_gpu_many", 110.6, seconds, seconds, "s",
          "124.44 M parameters in float32, 21.5 GB/s (nccl-tests issue 44, a pair of RTX 2080 Ti)"};
}

}  // namespace

std::vector<PublishedCheck> published_checks() { return {imagenet_in_one_hour(), gpt2_data_parallel()}; }

}  // namespace miniddp
