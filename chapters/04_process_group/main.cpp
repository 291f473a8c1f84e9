// Chapter 04: N processes, one group. Start it N times:
//   ./tutorial run 04 --nproc 2
#include <CLI/CLI.hpp>

#include <algorithm>

#include "chapters/04_process_group/init_process_group.h"
#include "common/core/console.h"
#include "common/core/generator.h"
#include "common/training/options.h"

using namespace miniddp;

namespace {

struct Options {
  std::string backend = "gloo";
  int64_t numel = 1'199'882;  // the gradients of article B's network
  int repeats = 20;
  uint64_t seed = 1;
};

// One line of one rank, whole: the ranks write at the same time.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  print_output("{}\n", fmt::format(format, std::forward<Args>(args)...));
}

// 1. Every rank begins with weights of its own; after the broadcast all have rank 0's.
void show_broadcast(ProcessGroup& group) {
  Tensor weights = Tensor::full({3}, group.rank() + 0.5);
  const float before = weights.to_vector<float>()[0];
  group.broadcast(weights, 0)->wait();
  say("broadcast    before {:4.1f}   after {:4.1f}", before, weights.to_vector<float>()[0]);
}

// 2. Every rank has a gradient of its own; after the all-reduce all have the mean.
void show_all_reduce(ProcessGroup& group) {
  Tensor gradient = Tensor::full({3}, group.rank() + 1);
  const float before = gradient.to_vector<float>()[0];
  group.all_reduce(gradient, ReduceOp::avg)->wait();
  say("all_reduce   before {:4.1f}   mean  {:4.1f}", before, gradient.to_vector<float>()[0]);
}

struct Measured {
  std::vector<float> values;
  double best_ms = 1e9;
  int64_t bytes = 0;
};

Measured measure(ProcessGroup& group, const Tensor& input, int repeats) {
  Measured measured;
  for (int i = 0; i < repeats; ++i) {
    Tensor tensor = input.clone();
    group.barrier()->wait();
    const auto start = Work::Clock::now();
    const WorkPtr work = group.all_reduce(tensor);
    work->wait();
    measured.best_ms = std::min(
        measured.best_ms, std::chrono::duration<double, std::milli>(Work::Clock::now() - start).count());
    measured.bytes = work->bytes_sent();
    measured.values = tensor.to_vector<float>();
  }
  return measured;
}

// 3. The library's all-reduce beside the one of this chapter.
void compare(ProcessGroup& library, ProcessGroup& ring, const Options& options) {
  Generator generator(options.seed + static_cast<uint64_t>(library.rank()));
  std::vector<float> values(static_cast<size_t>(options.numel));
  generator.uniform_(values, -1, 1);
  const Tensor input = Tensor::from(values, {options.numel});

  const Measured a = measure(library, input, options.repeats), b = measure(ring, input, options.repeats);
  double difference = 0;
  for (size_t i = 0; i < values.size(); ++i)
    difference = std::max(difference, std::abs(double(a.values[i]) - double(b.values[i])));
  if (library.rank() != 0) return;
  say("all-reduce of {} floats ({:.1f} MB) over {} ranks, best of {}:", options.numel, options.numel * 4e-6,
      library.size(), options.repeats);
  for (const auto& [group, measured] : {std::pair(&library, &a), std::pair(&ring, &b)}) {
    say("  {:4}   {:7.3f} ms   {:9} bytes sent by each rank", group->backend(), measured->best_ms,
        measured->bytes);
  }
  say("  {} takes {:.2f} times as long as ring; largest difference of the sums {:.1e}", library.backend(),
      a.best_ms / b.best_ms, difference);
}

int demonstrate(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Process groups: broadcast, all-reduce by the library and by hand. Start it on every rank: launch "
      "--nproc 2 04_process_group");
  app.add_option("--backend", options.backend, "the library to compare with: gloo, nccl, or ring itself")
      ->capture_default_str();
  app.add_option("--numel", options.numel, "floats to reduce")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30))
      ->capture_default_str();
  app.add_option("--repeats", options.repeats, "repetitions; the best counts")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the random input")->capture_default_str();
  parse_command_line(app, argc, argv);
  const ProcessGroupGuard guard({.backend = options.backend});
  ProcessGroup& group = default_process_group();
  say("I am rank {} of {}", group.rank(), group.size());
  show_broadcast(group);
  show_all_reduce(group);
  compare(group, *new_group("ring"), options);
  group.barrier()->wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program(demonstrate, argc, argv); }
