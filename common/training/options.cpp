#include "common/training/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <set>
#include <thread>

#include "common/core/error.h"
#include "common/kernels/kernels.h"

namespace miniddp {

TrainingOptions parse_training_options(const char* about, int argc, const char* const* argv) {
  TrainingOptions options;
  CLI::App app(about);
  add_training_options(app, options);
  parse_command_line(app, options, argc, argv);
  return options;
}

void add_training_options(CLI::App& app, TrainingOptions& options) {
  const auto positive = CLI::PositiveNumber;
  app.add_option("--model", options.model, "Network: article_a (one convolution) or article_b (two convolutions)")
      ->check(CLI::IsMember({"article_a", "article_b"}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "Passes over the training data [article_a: 2, article_b: 10]")->check(positive);
  app.add_option("--max-steps", options.max_steps, "Stop after this many training steps")->check(positive);
  app.add_option("--batch-size", options.batch_size, "Samples a step, per process")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  app.add_option("--test-batch-size", options.test_batch_size, "Samples a batch of the evaluation")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--lr", options.lr, "Learning rate")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--momentum", options.momentum, "Momentum of SGD")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of weights, order and dropout, as torch.manual_seed")->capture_default_str();
  app.add_option("--log-interval", options.log_interval, "Batches between two log lines [article_a: 10, article_b: 100]")
      ->check(positive);
  app.add_option("--device", options.device, "cpu, cuda, or auto: cuda where a GPU is found")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--devices", options.devices, "How many devices (4), or which (cpu:0,cpu:1)");
  app.add_flag("--tf32", options.tf32, "GPUs may round the factors of large products to TF32: faster, but losses differ from digit 4 on");
  app.add_option("--threads", options.threads, "CPU threads of this process, shared by its devices [all cores]")
      ->check(CLI::Range(1, 1024));
  app.add_option("--data", options.data, "Directory with MNIST's four IDX files, or other files of that form [datasets/mnist]");
  app.add_flag("--no-dropout", options.no_dropout, "Leave dropout out (runs that are compared need this)");
  app.add_flag("--no-shuffle", options.no_shuffle, "Take the samples in the file's order");
  app.add_option("--sampler", options.sampler,
                 "Order of the samples: random (DataLoader(shuffle=True)) or distributed (DistributedSampler)")
      ->check(CLI::IsMember({"random", "distributed"}))
      ->capture_default_str();
  app.add_flag("--no-set-epoch", options.no_set_epoch,
               "Keep epoch 0's order in every epoch (article A's mistake); needs --sampler distributed");
  app.add_option("--loss-csv", options.loss_csv, "Write step,loss for every step (counted from 1) to this file");
  app.add_flag("--profile", options.profile, "Print at the end where time, bytes and memory went, for each device");
  app.add_option("--trace", options.trace, "Write a Chrome trace (opens in Perfetto) to this file");
  app.add_option("--save", options.save, "Write a checkpoint (safetensors) to this file after every epoch and at the end");
  app.add_option("--resume", options.resume, "Go on from a checkpoint");
  app.add_flag("--quiet", options.quiet, "No log lines, no progress bar");
}

void parse_command_line(CLI::App& app, TrainingOptions& options, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    throw UsageError("{} (see --help)", error.what());
  }
  if (options.epochs == 0) options.epochs = options.is_article_a() ? 2 : 10;
  if (options.log_interval == 0) options.log_interval = options.is_article_a() ? 10 : 100;
  if (options.threads == 0) {
    // A launcher's OMP_NUM_THREADS is this process's share of the cores.
    const char* share = std::getenv("OMP_NUM_THREADS");
    const int wanted = share != nullptr ? std::atoi(share) : 0;
    options.threads = wanted > 0 ? wanted : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  check<UsageError>(!options.no_set_epoch || options.sampler == "distributed", "--no-set-epoch needs --sampler distributed");
  check<UsageError>(!options.no_shuffle || !options.no_set_epoch, "--no-shuffle and --no-set-epoch exclude each other");
}

namespace {

DeviceType device_type(const TrainingOptions& options) {
  if (options.device == "cuda") return DeviceType::cuda;
  if (options.device == "cpu") return DeviceType::cpu;
  return has_gpu() ? DeviceType::cuda : DeviceType::cpu;
}

// "cpu:0,cpu:1"
std::vector<Device> parse_device_list(const std::string& text, const std::string& wanted_type) {
  std::vector<Device> devices;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    try {
      devices.push_back(Device::parse(std::string_view(text).substr(start, comma - start)));
    } catch (const DeviceError& error) {
      throw UsageError("--devices: {}", error.what());
    }
    start = comma + 1;
  }
  for (Device device : devices) {
    check<UsageError>(device.type == devices[0].type, "--devices: expected devices of one type, found {}", text);
    check<UsageError>(wanted_type == "auto" || wanted_type == name_of(device.type), "--device {} and --devices {} contradict each other",
                      wanted_type, text);
  }
  return devices;
}

void check_exists(Device device) {
  const int count = device_count(device.type);
  if (device.index < count) return;
  kernels(device.type);  // says what is missing if this build has no such backend
  throw DeviceError("device {} does not exist: {} of type {} found; choose others with --devices", device.str(), count,
                    name_of(device.type));
}

}  // namespace

std::vector<Device> choose_devices(const TrainingOptions& options, int count) {
  const std::string& text = options.devices;
  std::vector<Device> devices;
  if (text.find_first_not_of("0123456789") != std::string::npos) {
    devices = parse_device_list(text, options.device);
  } else {
    if (!text.empty()) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
      check<UsageError>(error == std::errc() && count >= 1 && count <= 64, "--devices: expected 1 to 64 devices, found {}", text);
    }
    for (int i = 0; i < count; ++i) devices.push_back({device_type(options), i});
  }
  for (Device device : devices) check_exists(device);
  return devices;
}

void prepare_devices(const TrainingOptions& options, const std::vector<Device>& devices) {
  const std::set<Device> distinct(devices.begin(), devices.end());
  const int share = std::max(1, options.threads / static_cast<int>(distinct.size()));
  set_threads_per_device(share);
  check<UsageError>(!options.tf32 || devices[0].type == DeviceType::cuda, "--tf32 is a way GPUs compute; it needs --device cuda");
  set_tf32(options.tf32);
  if (options.quiet) return;
  std::string names;
  for (Device device : devices) names += (names.empty() ? "" : ", ") + device.str();
  const std::string threads =
      devices[0].type == DeviceType::cpu ? fmt::format(" ({} thread{} each)", share, share == 1 ? "" : "s") : "";
  fmt::print(stderr, "Devices: {}{}{}\n", names, threads, kernels(devices[0].type).description());
}

int run_program(int (*body)(int argc, char** argv), int argc, char** argv) {
  int status = 1;
  try {
    status = body(argc, argv);
    check(std::fflush(stdout) == 0, "cannot write to standard output");
  } catch (const UsageError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    status = 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  }
  return status;
}

}  // namespace miniddp
