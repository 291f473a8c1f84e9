#include "common/training/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include "common/core/console.h"
#include "common/core/error.h"
#include "common/core/file.h"
#include "common/core/interrupt.h"
#include "common/kernels/kernels.h"

namespace miniddp {

namespace {

constexpr int most_threads = 1024;

template <class T>
bool parses(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// CLI11's own checks let NaN through, and wrap numbers that are too large. These also put the number into the form that it reads.
CLI::Validator whole_number(int64_t low, int64_t high) {
  const auto check_text = [low, high](std::string& text) -> std::string {
    int64_t value = 0;
    if (!parses(text, value) || value < low || value > high)
      return fmt::format("expected a whole number from {} to {}, found \"{}\"", low, high, text);
    text = fmt::to_string(value);
    return {};
  };
  return {check_text, "", ""};
}

CLI::Validator not_negative() {
  const auto check_text = [](std::string& text) -> std::string {
    double value = 0;
    if (parses(text, value) && std::isfinite(value) && value >= 0) return {};
    return fmt::format("expected a number of at least 0, found \"{}\"", text);
  };
  return {check_text, "", ""};
}

// As torch.manual_seed, which counts negative ones down from 2^64.
CLI::Validator seed() {
  const auto check_text = [](std::string& text) -> std::string {
    uint64_t value = 0;
    int64_t negative = 0;
    if (parses(text, negative)) {
      value = static_cast<uint64_t>(negative);
    } else if (!parses(text, value)) {
      return fmt::format("expected a whole number from -2^63 to 2^64 - 1, found \"{}\"", text);
    }
    text = fmt::to_string(value);
    return {};
  };
  return {check_text, "", ""};
}

// A launcher's OMP_NUM_THREADS is this process's share of the cores; it may be a list for nested levels. 0: not set, or nonsense.
int threads_from_environment() {
  const char* share = std::getenv("OMP_NUM_THREADS");
  if (share == nullptr) return 0;
  errno = 0;
  const int64_t wanted = std::strtoll(share, nullptr, 10);  // the largest number if it is larger still
  return static_cast<int>(std::clamp<int64_t>(wanted, 0, most_threads));
}

// Two results cannot go into one file, and a checkpoint that is read is overwritten by a checkpoint alone.
void check_distinct_files(const TrainingOptions& options) {
  const std::pair<const char*, const std::filesystem::path&> files[] = {
      {"--save", options.save}, {"--loss-csv", options.loss_csv}, {"--trace", options.trace}, {"--resume", options.resume}};
  const auto same = [](const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code error;
    return !a.empty() && !b.empty() &&
           (weakly_canonical(absolute(a, error), error) == weakly_canonical(absolute(b, error), error) || equivalent(a, b, error));
  };
  for (size_t i = 0; i < std::size(files); ++i) {
    for (size_t j = i + 1; j < std::size(files); ++j) {
      if (i == 0 && j == 3) continue;  // --save over what --resume read
      check<UsageError>(!same(files[i].second, files[j].second), "{} and {} name the same file {}; give each its own", files[i].first,
                        files[j].first, files[i].second.string());
    }
  }
}

// Before all work and before other processes are met: one that leaves them later makes them fail too, and hides its own reason.
void check_results_writable(const TrainingOptions& options) {
  const char* rank = std::getenv("RANK");
  if (rank != nullptr && std::string_view(rank) != "0") return;  // rank 0 writes
  for (const auto& path : {options.save, options.loss_csv}) {
    if (!path.empty()) check_writable(path);
  }
}

}  // namespace

CLI::Validator not_empty() {
  return {[](std::string& text) -> std::string { return text.empty() ? "expected a name, found an empty text" : ""; }, "", ""};
}

TrainingOptions parse_training_options(const char* about, int argc, const char* const* argv) {
  TrainingOptions options;
  CLI::App app(about);
  add_training_options(app, options);
  parse_command_line(app, options, argc, argv);
  return options;
}

void add_training_options(CLI::App& app, TrainingOptions& options) {
  const auto positive = whole_number(1, std::numeric_limits<int>::max());
  app.add_option("--model", options.model, "Network: article_a (one convolution) or article_b (two convolutions)")
      ->check(CLI::IsMember({"article_a", "article_b"}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "Passes over the training data [article_a: 2, article_b: 10]")->transform(positive);
  app.add_option("--max-steps", options.max_steps, "Stop after this many training steps")
      ->transform(whole_number(1, std::numeric_limits<int64_t>::max()));
  app.add_option("--batch-size", options.batch_size, "Samples a step, per process")
      ->transform(whole_number(1, 60000))
      ->capture_default_str();
  app.add_option("--test-batch-size", options.test_batch_size, "Samples a batch of the evaluation")
      ->transform(whole_number(1, 10000))
      ->capture_default_str();
  app.add_option("--lr", options.lr, "Learning rate")->check(not_negative())->capture_default_str();
  app.add_option("--momentum", options.momentum, "Momentum of SGD")->check(not_negative())->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of weights, order and dropout, as torch.manual_seed")
      ->transform(seed())
      ->capture_default_str();
  app.add_option("--log-interval", options.log_interval, "Batches between two log lines [article_a: 10, article_b: 100]")
      ->transform(positive);
  app.add_option("--device", options.device, "cpu, cuda, or auto: cuda where a GPU is found")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--devices", options.devices, "How many devices (4), or which (cpu:0,cpu:1)")->check(not_empty());
  app.add_flag("--tf32", options.tf32, "GPUs may round the factors of large products to TF32: faster, but losses differ from digit 4 on");
  app.add_option("--threads", options.threads, "CPU threads of this process, shared by its devices [all cores]")
      ->transform(whole_number(1, most_threads));
  app.add_option("--data", options.data, "Directory with MNIST's four IDX files, or other files of that form [datasets/mnist]")->check(not_empty());
  app.add_flag("--no-dropout", options.no_dropout, "Leave dropout out (runs that are compared need this)");
  app.add_flag("--no-shuffle", options.no_shuffle, "Take the samples in the file's order");
  app.add_option("--sampler", options.sampler,
                 "Order of the samples: random (DataLoader(shuffle=True)) or distributed (DistributedSampler)")
      ->check(CLI::IsMember({"random", "distributed"}))
      ->capture_default_str();
  app.add_flag("--no-set-epoch", options.no_set_epoch,
               "Keep epoch 0's order in every epoch (article A's mistake); needs --sampler distributed");
  app.add_option("--loss-csv", options.loss_csv, "Write step,loss for every step (counted from 1) to this file")->check(not_empty());
  app.add_flag("--profile", options.profile, "Print at the end where time, bytes and memory went, for each device");
  app.add_option("--trace", options.trace, "Write a Chrome trace (opens in Perfetto) to this file")->check(not_empty());
  app.add_option("--save", options.save, "Write a checkpoint (safetensors) to this file after every epoch and at the end")->check(not_empty());
  app.add_option("--resume", options.resume, "Go on from a checkpoint")->check(not_empty());
  app.add_flag("--quiet", options.quiet, "No log lines, no progress bar");
}

void parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    write_output(app.help());
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    throw UsageError("{} (see --help)", error.what());
  }
}

void parse_command_line(CLI::App& app, TrainingOptions& options, int argc, const char* const* argv) {
  parse_command_line(app, argc, argv);
  if (options.epochs == 0) options.epochs = options.is_article_a() ? 2 : 10;
  if (options.log_interval == 0) options.log_interval = options.is_article_a() ? 10 : 100;
  if (options.threads == 0) {
    const int share = threads_from_environment();
    options.threads = share > 0 ? share : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  check<UsageError>(!options.no_set_epoch || options.sampler == "distributed", "--no-set-epoch needs --sampler distributed");
  check<UsageError>(!options.no_shuffle || !options.no_set_epoch, "--no-shuffle and --no-set-epoch exclude each other");
  check_distinct_files(options);
  check_results_writable(options);
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
  print_errors("Devices: {}{}{}\n", names, threads, kernels(devices[0].type).description());
}

int run_program(int (*body)(int argc, char** argv), int argc, char** argv) {
  open_standard_streams();
  handle_interrupts();
  int status = 1;
  try {
    status = body(argc, argv);
    write_output("");
    return status;
  } catch (const UsageError& error) {
    print_errors("error: {}\n", error.what());
    status = 2;
  } catch (const std::bad_alloc&) {
    print_errors("error: out of memory; use a smaller batch, fewer devices or fewer threads\n");
  } catch (const std::exception& error) {
    print_errors("error: {}\n", error.what());
  }
  // The libraries' own clean-up is left out: where memory was short, OpenBLAS would wait there for a thread that never gets any.
  ::on_exit(
      [](int exit_status, void*) {
        std::fflush(stdout);
        std::_Exit(exit_status);
      },
      nullptr);
  return status;
}

}  // namespace miniddp
