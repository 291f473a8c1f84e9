// One training step of the articles' networks, and the best hand-written oneDNN loop for article B beside it.
#include <benchmark/benchmark.h>

#include "chapters/01_single_device/networks.h"
#include "common/optim/sgd.h"
#include "tests/benchmarks/best_onednn_loop.h"
#include "tests/benchmarks/random_data.h"

namespace miniddp::benchmarks {
namespace {

constexpr double lr = 0.01, momentum = 0.5;

/// Our own step, as chapter 01 takes it.
double train_step(Module& net, SGD& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  Tensor loss = functional::nll_loss(net(batch.images), batch.labels);
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

ArticleBWeights weights_of(const Module& net) {
  std::vector<std::vector<float>> values;
  for (const Tensor& parameter : net.parameters()) values.push_back(parameter.to_vector<float>());
  return {values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]};
}

void article_b_step(benchmark::State& state) {
  set_threads_per_device(static_cast<int>(state.range(1)));
  manual_seed(1);
  ArticleB net(/*dropout=*/false);
  SGD optimizer(net.parameters(), {.lr = lr, .momentum = momentum});
  const Batch batch = random_batch(state.range(0));
  for (int i = 0; i < 3; ++i) train_step(net, optimizer, batch);
  for (auto _ : state) benchmark::DoNotOptimize(train_step(net, optimizer, batch));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void best_onednn_loop(benchmark::State& state) {
  set_threads_per_device(static_cast<int>(state.range(1)));
  manual_seed(1);
  ArticleB net(/*dropout=*/false);
  SGD optimizer(net.parameters(), {.lr = lr, .momentum = momentum});
  const Batch batch = random_batch(state.range(0));
  BestOnednnLoop loop(state.range(0), weights_of(net), lr, momentum);
  const auto* images = batch.images.data<float>();
  const auto* labels = batch.labels.data<int64_t>();
  // A peer counts only if it computes the same thing.
  for (int i = 0; i < 3; ++i) {
    const double ours = train_step(net, optimizer, batch), peers = loop.step(images, labels);
    if (!(std::abs(ours - peers) <= 1e-5)) {
      state.SkipWithError(fmt::format("losses differ at step {}: ours {}, the loop's {}", i, ours, peers).c_str());
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(loop.step(images, labels));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void batch_and_threads(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"batch", "threads"})->ArgsProduct({{64, 256}, {1, 2}});
  bench->Unit(benchmark::kMillisecond)->UseRealTime();
}
BENCHMARK(article_b_step)->Apply(batch_and_threads);
BENCHMARK(best_onednn_loop)->Apply(batch_and_threads);

}  // namespace
}  // namespace miniddp::benchmarks

BENCHMARK_MAIN();
