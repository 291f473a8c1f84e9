// Training on two ranks beside one process, for the exercises of chapter 05.
#pragma once

#include <fmt/ranges.h>

#include <optional>
#include <sstream>

#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"
#include "common/core/warning.h"
#include "common/nn/functional.h"
#include "common/nn/layers.h"
#include "common/optim/sgd.h"
#include "tests/exercises/expect.h"
#include "tests/support/ranks.h"

namespace miniddp::testing {

/// Every rank's text. The default group is there; a rank has 10 s for each collective.
inline std::vector<std::string> on_ranks(int world, const RankFunction& body) {
  return run_ranks_all(
      world,
      [&](int rank) {
        set_threads_per_device(1);
        const ProcessGroupGuard guard({.timeout = Milliseconds(10'000)});
        set_warning_handler([](const std::string&) {});
        return body(rank);
      },
      std::chrono::seconds(25));
}

inline constexpr int steps = 5;
inline constexpr int64_t global_batch = 12;

struct Small : Cloneable<Small> {
  Small() {
    register_module("fc1", &Small::fc1);
    register_module("fc2", &Small::fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(functional::relu(fc1(x))); }
  Linear fc1{6, 16}, fc2{16, 4};
};

// All parameters after each step, one line a step.
using Steps = std::vector<std::vector<double>>;

inline std::string text_of(const Steps& trained) {
  std::string text;
  for (const auto& values : trained) text += fmt::format("{}\n", fmt::join(values, " "));
  return text;
}

inline Steps steps_of(const std::string& text) {
  Steps trained;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    auto& values = trained.emplace_back();
    for (double value; words >> value;) values.push_back(value);
  }
  return trained;
}

// Trains on rows rank, rank + world, … of every global batch.
inline Steps train(Small& network, int rank, int world, const std::function<Tensor(const Tensor& x, bool sync, const Tensor& label)>& loss_of) {
  SGD optimizer(network.parameters(), {.lr = 0.2, .momentum = 0.9});
  Steps trained;
  Generator generator(7);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    for (const bool sync : {false, true}) {  // gradients accumulate over two micro-batches
      std::vector<float> x(6 * global_batch);
      generator.uniform_(x, -1, 1);
      std::vector<float> mine;
      std::vector<int64_t> labels;
      for (int64_t i = rank; i < global_batch; i += world) {
        mine.insert(mine.end(), x.begin() + 6 * i, x.begin() + 6 * (i + 1));
        labels.push_back((i + step) % 4);
      }
      const auto count = static_cast<int64_t>(labels.size());
      loss_of(Tensor::from(mine, {count, 6}), sync, Tensor::from(labels, {count})).backward();
    }
    optimizer.step();
    auto& values = trained.emplace_back();
    for (const Tensor& parameter : network.parameters()) {
      for (const float value : parameter.to_vector<float>()) values.push_back(value);
    }
  }
  return trained;
}

// Two ranks with these options beside one process with the same global batches.
inline void expect_one_process(const std::string& run, const DdpOptions& options) {
  constexpr int world = 2;
  const auto ranks = on_ranks(world, [&](int rank) {
    manual_seed(1);
    const auto network = std::make_shared<Small>();
    DistributedDataParallel model(network, options);
    return text_of(train(*network, rank, world, [&](const Tensor& x, bool sync, const Tensor& label) {
      if (sync) return functional::cross_entropy(model(x), label);
      const DistributedDataParallel::NoSync local(model);
      return functional::cross_entropy(model(x), label);
    }));
  });
  manual_seed(1);
  Small alone;
  const Steps expected =
      train(alone, 0, 1, [&](const Tensor& x, bool, const Tensor& label) { return functional::cross_entropy(alone(x), label); });
  for (int step = 0; step < steps; ++step) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const Steps found = steps_of(ranks[rank]);
      const auto at = static_cast<size_t>(step);
      expect_equal(fmt::format("{}: steps of rank {}", run, rank), found.size(), expected.size());
      size_t begin = 0;
      for (const auto& [name, parameter] : alone.named_parameters()) {
        const auto end = begin + static_cast<size_t>(parameter.numel());
        const auto part = [&](const std::vector<double>& values) {
          return std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end));
        };
        expect_close(fmt::format("{}, beside one process, step {}, rank {}, {}", run, step + 1, rank, name), part(found[at]), part(expected[at]), 1e-5);
        begin = end;
      }
    }
  }
}

struct OneOrTwo : Cloneable<OneOrTwo> {
  explicit OneOrTwo(int64_t width = 1) : first(1, width), second(1, width) {
    register_module("first", &OneOrTwo::first);
    register_module("second", &OneOrTwo::second);
  }
  Tensor forward(const Tensor& x) override { return use_second ? functional::add(first(x), second(x)) : first(x); }
  Linear first, second;
  bool use_second = true;
};

// A gradient accumulates over a pass in no_sync and one that averages.
inline void expect_own_gradients_until_the_last_pass(const std::string& run, const DdpOptions& options) {
  const auto texts = on_ranks(2, [&](int rank) {
    const auto network = std::make_shared<Linear>(1, 1);
    DistributedDataParallel model(network, options);
    std::string text;
    for (const bool sync : {false, true}) {
      const Tensor x = Tensor::full({1, 1}, (rank + 1) * (sync ? 10 : 1));
      std::optional<DistributedDataParallel::NoSync> local;
      if (!sync) local.emplace(model);
      functional::sum(model(x)).backward();
      text += fmt::format("{} ", network->weight.grad().item<double>());
    }
    return text;
  });
  for (size_t rank = 0; rank < 2; ++rank)
    expect_equal(fmt::format("{}: gradients of rank {} after a pass in no_sync and after one that averages (its own are {} and {})", run, rank,
                             rank + 1, 10 * (rank + 1)),
                 texts[rank], std::string(rank == 0 ? "1 16.5 " : "2 16.5 "));
}

}  // namespace miniddp::testing
