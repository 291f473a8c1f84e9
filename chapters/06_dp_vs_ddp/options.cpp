#include "chapters/06_dp_vs_ddp/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "common/core/error.h"

namespace miniddp {

void add_compare_options(CLI::App& app, CompareOptions& options) {
  const auto positive = CLI::PositiveNumber;
  app.add_option("--model", options.model, "Network: article_a or article_b, without dropout")
      ->check(CLI::IsMember({"article_a", "article_b"}))
      ->capture_default_str();
  app.add_option("--devices", options.devices, "Devices of DP, processes of DDP")->check(CLI::Range(2, 16))->capture_default_str();
  app.add_option("--global-batch", options.global_batch, "Samples a step, by all devices together")
      ->check(CLI::Range(2, 60000))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps of a timed run")->check(CLI::Range(2, 10000))->capture_default_str();
  app.add_option("--runs", options.runs, "Timed runs of each variant")->check(CLI::Range(1, 100))->capture_default_str();
  app.add_option("--parity-steps", options.parity_steps, "Steps compared tensor by tensor before that")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--output", options.output, "Folder for index.html, report.json and trace.json")->capture_default_str();
  app.add_option("--device", options.device, "cpu, cuda, or auto: cuda where a GPU is found")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--backend", options.backend, "What carries DDP's gradients: ring (chapter 04's, which counts its bytes), gloo or nccl")
      ->check(CLI::IsMember({"ring", "gloo", "nccl"}))
      ->capture_default_str();
  app.add_option("--lr", options.lr, "Learning rate")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--momentum", options.momentum, "Momentum of SGD")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the weights")->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads of all devices together [all cores]")->check(CLI::Range(1, 1024))->take_last();
  app.add_option("--data", options.data, "Directory with MNIST's four IDX files [datasets/mnist]");
  app.add_option("--timeout", options.timeout, "Seconds that one part (one device, DP, DDP) may take")->check(positive)->capture_default_str();
  app.add_flag("--quiet", options.quiet, "No progress on stderr");
  // How the program calls itself.
  app.add_option("--role", options.role)->group("");
  app.add_option("--parts", options.parts)->group("");
  app.add_option("--fail-role", options.fail_role)->group("");
}

void check_compare_options(CompareOptions& options) {
  check<UsageError>(options.global_batch % options.devices == 0,
                    "--global-batch {} cannot be dealt out evenly to {} processes: DDP averages the ranks' gradients, which is the whole "
                    "batch's only for equal shares",
                    options.global_batch, options.devices);
  if (options.threads == 0) options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  check<UsageError>(options.backend != "nccl" || options.device != "cpu", "--backend nccl needs --device cuda");
}

TrainingOptions training_options(const CompareOptions& options) {
  TrainingOptions training;
  training.model = options.model;
  training.max_steps = options.steps;
  training.batch_size = options.global_batch;
  training.lr = options.lr;
  training.momentum = options.momentum;
  training.seed = options.seed;
  training.device = options.device;
  training.threads = options.threads;
  training.data = options.data;
  training.no_dropout = true;
  training.sampler = "distributed";
  training.quiet = true;
  return training;
}

}  // namespace miniddp
