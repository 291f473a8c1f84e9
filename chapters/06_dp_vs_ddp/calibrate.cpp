#include "chapters/06_dp_vs_ddp/calibrate.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <regex>
#include <thread>

#include "chapters/01_single_device/networks.h"
#include "chapters/05_distributed_data_parallel/buckets.h"
#include "common/core/error.h"
#include "common/core/generator.h"
#include "common/launch/child_program.h"

namespace miniddp {
namespace {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;
constexpr double infinite = std::numeric_limits<double>::infinity();

double median(std::vector<double> values) {
  check(!values.empty(), "expected measured values, found none");
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Thrown by a reader that has seen all it needs: run_child ends the program, which need not evaluate.
struct Enough {};

// A program that trains, so many times at once.
struct TrainingProgram {
  std::string model;
  int processes = 1;
  std::string program;
  Words options;
};

struct Programs {
  std::filesystem::path folder;
  std::chrono::duration<double> limit;

  Words command(int processes, const std::string& program, const Words& options) const {
    Words words{folder / "launch", "--nproc", std::to_string(processes), "--", folder / program};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }

  // Every line of rank 0 goes to `reader`.
  void run(const Words& command, const std::function<void(const std::string&)>& reader) const {
    std::string errors;
    int code = 0;
    try {
      code = run_child(command, limit, {[&](const std::string& line) {
                                          if (line.starts_with("[rank 0] ")) reader(line.substr(9));
                                        },
                                        [&](const std::string& line) { errors += "\n    " + line; }});
    } catch (const Enough&) {
      return;
    }
    check(code == 0, "{} ended with exit code {}{}:{}", command[4], code, code == 143 ? " (it took too long)" : "", errors);
  }

  // The time of a step of a training program, from its log lines: one comes after every step. Of several blocks of steps the fastest
  // counts, and of a block its mean: where processes take turns on a core single steps are short or long.
  double step_seconds(const TrainingProgram& training, const CompareOptions& options) const {
    constexpr size_t block = 8, steps = 5 * block, warm_up = 5;
    Words words{"--device", "cpu", "--model", training.model, "--no-dropout", "--sampler", "distributed", "--max-steps", "200", "--log-interval", "1"};
    if (!options.data.empty()) words.insert(words.end(), {"--data", options.data});
    words.insert(words.end(), training.options.begin(), training.options.end());
    std::vector<Clock::time_point> times;
    run(command(training.processes, training.program, words), [&](const std::string& line) {
      if (!line.starts_with("Train Epoch")) return;
      times.push_back(Clock::now());
      if (times.size() == warm_up + steps) throw Enough();
    });
    check(times.size() == warm_up + steps, "{} printed {} log lines, expected {}", training.program, times.size(), warm_up + steps);
    double best = infinite;
    for (size_t i = warm_up - 1; i + block < times.size(); i += block)
      best = std::min(best, std::chrono::duration<double>(times[i + block] - times[i]).count() / static_cast<double>(block));
    return best;
  }

  // Seconds of chapter 04's ring all-reduce between two processes.
  double ring_seconds(int64_t elements) const {
    static const std::regex result(R"(\s+ring\s+([0-9.]+) ms.*)");
    std::vector<double> seconds;
    run(command(2, "04_process_group", {"--backend", "ring", "--numel", std::to_string(elements), "--repeats", "30"}), [&](const std::string& line) {
      std::smatch match;
      if (std::regex_match(line, match, result)) seconds.push_back(std::stod(match[1]) / 1000);
    });
    return median(seconds);
  }
};

// Multiplications of a layer for one sample; the names are those of the networks' parameters.
double arithmetic_of(const std::string& name, const Shape& shape) {
  double product = 1;
  for (const int64_t size : shape) product *= static_cast<double>(size);
  if (shape.size() != 4) return product;
  // Outputs of a convolution of 28 x 28 pixels without padding; a second one comes after the first, of the same size.
  const int64_t side = 28 - (shape[2] - 1) * (name.starts_with("conv2") ? 2 : 1);
  return product * static_cast<double>(side * side);
}

}  // namespace

std::vector<Workload::Bucket> buckets_of(const std::string& model) {
  manual_seed(0);
  NamedTensors parameters = make_network(model, false)->named_parameters();
  std::reverse(parameters.begin(), parameters.end());  // the order in which gradients become ready
  std::vector<Tensor> tensors;
  std::vector<double> work;
  double total = 0;
  for (const auto& [name, tensor] : parameters) {
    tensors.push_back(tensor);
    // Backward computes two gradients where forward computes one output; the first layer has no gradient of its input.
    const double factor = name.starts_with("conv1") ? 1 : 2;
    work.push_back(factor * arithmetic_of(name, tensor.shape()));
    total += work.back();
  }
  std::vector<Workload::Bucket> buckets;
  double done = 0;
  for (const std::vector<size_t>& indices : compute_bucket_assignment_by_size(tensors, {first_bucket_bytes, default_bucket_cap_bytes})) {
    Workload::Bucket bucket;
    for (const size_t i : indices) {
      bucket.bytes += static_cast<double>(tensors[i].nbytes());
      done += work[i];
    }
    bucket.ready = done / total;
    buckets.push_back(bucket);
  }
  return buckets;
}

Workload workload_of(const CompareOptions& options, const Line& compute) {
  Workload work;
  work.seconds_per_sample = compute.per_sample;
  work.seconds_per_step = compute.per_step;
  work.buckets = buckets_of(options.model);
  work.sample_bytes = 28 * 28 * 4;
  work.output_bytes = 10 * 4;
  work.reduces_loss = true;  // chapter 05 prints the mean of the ranks' losses
  return work;
}

MachineMeasured measure_machine(const CompareOptions& options, const std::filesystem::path& folder) {
  const Programs programs{folder, std::chrono::duration<double>(options.timeout)};
  MachineMeasured result;
  Calibration& machine = result.calibration;
  machine.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));

  // What is measured. One device with three batch sizes, as often at once as there are cores; then two processes, or devices,
  // with a quarter of the batch each.
  const int64_t batch = options.global_batch;
  std::vector<TrainingProgram> trainings;
  const auto one = [&](const std::string& model, int64_t samples) {
    trainings.push_back({model, machine.cores, "01_single_device", {"--batch-size", std::to_string(samples), "--threads", "1"}});
  };
  const auto ddp = [&](const std::string& model, int n, int64_t samples) {
    trainings.push_back({model, n, "05_distributed_data_parallel", {"--batch-size", std::to_string(samples), "--threads", "1", "--backend", "ring"}});
  };
  const auto dp = [&](int n, int64_t samples) {
    trainings.push_back({options.model, 1, "03_data_parallel", {"--batch-size", std::to_string(samples), "--devices", std::to_string(n)}});
  };
  const std::string small = "article_a";  // so small that its all-reduce is latency
  for (const int64_t divisor : {1, 2, 4}) one(options.model, batch / divisor);  // 0 to 2
  ddp(options.model, 2, batch / 4);                                            // 3
  dp(2, batch / 2);                                                            // 4
  one(small, batch / 4);                                                       // 5
  ddp(small, 2, batch / 4);                                                    // 6
  // And what the model is checked with: other numbers of processes, other batches.
  for (const int n : {2, 4}) ddp(options.model, n, batch / n);  // 7, 8
  for (const int n : {2, 4}) dp(n, batch);                      // 9, 10

  const double bytes = workload_of(options, {}).parameter_bytes();
  std::vector<double> seconds(trainings.size(), infinite);
  double floor_small = infinite, floor_large = infinite;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < trainings.size(); ++i) seconds[i] = std::min(seconds[i], programs.step_seconds(trainings[i], options));
    floor_small = std::min(floor_small, programs.ring_seconds(1));
    floor_large = std::min(floor_large, programs.ring_seconds(static_cast<int64_t>(bytes / 4)));
  }

  machine.compute = fit_line({double(batch), batch / 2.0, batch / 4.0}, {seconds[0], seconds[1], seconds[2]});
  machine.compute.per_step = std::max(0.0, machine.compute.per_step);
  // The link as training finds it: with cold caches, and with a partner who is never quite on time. Between two processes an all-reduce
  // takes 2 alpha + bytes / beta; a step has one for each bucket and one for the loss. It cannot be better than alone, back to back.
  const auto collectives = [](const std::string& model) { return static_cast<double>(buckets_of(model).size()) + 1; };
  const double latency = std::max((seconds[6] - seconds[5]) / (2 * collectives(small)), floor_small / 2);
  const double fastest = std::max(floor_large - floor_small, floor_large / 2);
  const double sending = std::max(seconds[3] - seconds[2] - 2 * collectives(options.model) * latency, fastest);
  machine.link = {"this machine: chapter 04's ring over TCP", latency, bytes / sending};
  // Two devices of DataParallel: the parameters once there, the gradients once back.
  machine.memory = {"this machine: memory", 0, 2 * bytes / std::max(seconds[4] - seconds[2], 1e-6)};

  const Workload work = workload_of(options, machine.compute);
  for (const bool distributed : {true, false}) {
    for (const int n : {2, 4}) {
      const double share = static_cast<double>(batch) / n, measured = seconds[(distributed ? 7 : 9) + (n == 4 ? 1 : 0)];
      const StepTime time = distributed ? ddp_step(work, machine.link, AllReduce::ring, true, n, share, machine.cores)
                                        : dp_step(work, machine.memory, n, share, machine.cores);
      result.checks.push_back({fmt::format("{}, {} {} of {:.0f} samples", distributed ? "DDP" : "DP", n, distributed ? "processes" : "devices", share), n,
                               time.total(), measured});
    }
  }
  return result;
}

}  // namespace miniddp
