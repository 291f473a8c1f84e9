#include "chapters/05_distributed_data_parallel/options.h"

#include <CLI/CLI.hpp>
#include <map>

#include "common/kernels/kernels.h"

namespace miniddp {

DistributedOptions parse_distributed_options(int argc, char** argv) {
  DistributedOptions options;
  options.sampler = "distributed";
  std::string reducer = "buckets", compress;
  double bucket_cap_mb = 25, rendezvous_seconds = 60, collective_seconds = 300;
  bool no_overlap = false;
  CLI::App app("Chapter 05: trains a small CNN on MNIST with several processes, in DistributedDataParallel");
  add_training_options(app, options);
  app.add_option("--backend", options.init.backend, "gloo, ring (written by hand in chapter 04) or nccl")
      ->check(CLI::IsMember({"gloo", "ring", "nccl"}))
      ->capture_default_str();
  app.add_option("--reducer", reducer, "How gradients are averaged: after-backward, per-gradient or buckets")
      ->check(CLI::IsMember({"after-backward", "per-gradient", "buckets"}))
      ->capture_default_str();
  app.add_option("--bucket-cap-mb", bucket_cap_mb, "A bucket is full at this many MiB")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("--no-overlap", no_overlap, "Buckets start only after backward");
  app.add_flag("--find-unused-parameters", options.ddp.reducer.find_unused_parameters, "Let parameters take no part in the loss");
  app.add_flag("--static-graph", options.ddp.reducer.static_graph, "The graph of the first step is that of all");
  app.add_flag("--gradient-as-bucket-view", options.ddp.reducer.gradient_as_bucket_view, "Gradients live in the buckets");
  app.add_option("--compress", compress, "Send gradients as fp16 or bf16")->check(CLI::IsMember({"fp16", "bf16"}));
  app.add_option("--rendezvous-timeout", rendezvous_seconds, "Seconds until all processes must have joined")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--timeout", collective_seconds, "Seconds that a collective operation may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  parse_command_line(app, options, argc, argv);

  check<UsageError>(options.sampler == "distributed", "--sampler random: several processes need the distributed sampler");
  check<UsageError>(options.devices.empty(), "--devices: each process has one device; choose their number with --nproc and their kind with --device");
  const std::map<std::string, ReducerKind> kinds{
      {"after-backward", ReducerKind::after_backward}, {"per-gradient", ReducerKind::per_gradient}, {"buckets", ReducerKind::buckets}};
  options.ddp.kind = kinds.at(reducer);
  ReducerOptions& buckets = options.ddp.reducer;
  buckets.overlap = !no_overlap;
  buckets.bucket_cap_bytes = static_cast<size_t>(bucket_cap_mb * (1 << 20));
  const bool only_buckets = no_overlap || buckets.find_unused_parameters || buckets.static_graph || buckets.gradient_as_bucket_view ||
                            !compress.empty() || app.count("--bucket-cap-mb") > 0;
  check<UsageError>(options.ddp.kind == ReducerKind::buckets || !only_buckets, "--reducer {} has no buckets: leave out the options about them",
                    reducer);
  if (!compress.empty()) options.compress = compress == "fp16" ? fp16_compress_hook : bf16_compress_hook;
  options.init.rendezvous_timeout = Milliseconds(static_cast<int64_t>(rendezvous_seconds * 1000));
  options.init.timeout = Milliseconds(static_cast<int64_t>(collective_seconds * 1000));
  return options;
}

Device device_of_rank(const TrainingOptions& options) {
  const Device first = choose_devices(options)[0];
  if (first.type == DeviceType::cpu) return first;
  const int count = device_count(DeviceType::cuda);
  check<DeviceError>(local_rank() < count,
                     "local rank {} has no GPU of its own: {} found; start fewer processes, or use --device cpu --backend gloo", local_rank(),
                     count);
  return {DeviceType::cuda, local_rank()};
}

}  // namespace miniddp
