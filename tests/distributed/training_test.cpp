// DistributedDataParallel trains as one process does on the same global batches; ranks never part; and mistakes are noticed.
#include <bit>
#include <chrono>
#include <sstream>
#include <thread>

#include "chapters/01_single_device/networks.h"
#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"
#include "chapters/05_distributed_data_parallel/evaluate_distributed.h"
#include "common/core/warning.h"
#include "common/data/data_loader.h"
#include "common/optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/networks.h"
#include "tests/support/ranks.h"

using namespace miniddp;
using namespace miniddp::testing;
namespace F = miniddp::functional;

namespace {

// What a run of N ranks does wrong on purpose.
enum class Mistake {
  none,
  no_all_reduce,
  sum_instead_of_mean,
  no_initial_broadcast,
  dropped_bucket,
  different_shuffles,
  epoch_never_advanced,
  parameter_reduced
};

struct Run {
  std::string network = "mini";  // or article_a, article_b
  int world = 1;
  int64_t global_batch = 12;
  int64_t steps = 10;
  DdpOptions ddp = {};
  Mistake mistake = Mistake::none;
  bool delays = false;           // each rank sleeps at other moments
  std::string backend = "gloo";
};

// 60 of D256's images: five global batches of 12 make an epoch. Images of noise would teach the networks nothing to part over, so each
// carries a bright square at its label's place.
Samples training_samples() {
  Samples samples = random_samples(99, 60);
  auto* images = samples.images.data<float>();
  const auto* labels = samples.labels.data<int64_t>();
  for (int64_t i = 0; i < 60; ++i) {
    for (int64_t k = 0; k < 16; ++k) images[i * 784 + (labels[i] / 4 * 7 + k / 4) * 28 + labels[i] % 4 * 7 + k % 4] += 2;
  }
  return samples;
}

std::shared_ptr<Module> network_of(const std::string& name) {
  if (name == "mini") return std::make_shared<Mini>();
  return make_network(name, false);
}

F::LossFunction loss_for(const std::string& name) { return name == "article_b" ? F::nll_loss : F::cross_entropy; }

uint64_t hash_of(const std::vector<Tensor>& tensors) {
  uint64_t hash = 14695981039346656037ULL;
  for (const Tensor& tensor : tensors) {
    for (const float value : tensor.to_vector<float>()) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211ULL;
  }
  return hash;
}

CommHook hook_for(Mistake mistake) {
  switch (mistake) {
    case Mistake::no_all_reduce: return [](ProcessGroup&, Tensor flat) -> PendingBucket { return [flat] { return flat; }; };
    case Mistake::sum_instead_of_mean:
      return [](ProcessGroup& group, Tensor flat) -> PendingBucket {
        return [flat, work = group.all_reduce(flat)] {
          work->wait();
          return flat;
        };
      };
    case Mistake::dropped_bucket:
      return [calls = std::make_shared<int>(0)](ProcessGroup& group, Tensor flat) -> PendingBucket {
        if (++*calls % 2 == 0) return [flat] { return flat; };
        return allreduce_hook(group, flat);
      };
    default: return {};
  }
}

// One rank's part: "loss loss … | hash hash …", the losses being the mean over the ranks, the hashes those of its parameters after each step.
std::string train_rank(const Run& run) {
  set_threads_per_device(1);
  set_warning_handler([](const std::string&) {});
  InitOptions init;
  init.backend = run.backend;
  init.timeout = Milliseconds(30000);
  const ProcessGroupGuard guard(init);
  ProcessGroup& group = default_process_group();
  const Samples samples = training_samples();

  manual_seed(1 + (run.mistake == Mistake::no_initial_broadcast ? static_cast<uint64_t>(group.rank()) : 0));
  const auto network = network_of(run.network);
  std::vector<Tensor> own_weights;
  for (const Tensor& parameter : network->parameters()) own_weights.push_back(parameter.detach().clone());
  DdpOptions options = run.ddp;
  if (run.mistake == Mistake::dropped_bucket) options.reducer.bucket_cap_bytes = 1;
  DistributedDataParallel model(network, options);
  if (run.mistake == Mistake::no_initial_broadcast) {
    for (size_t i = 0; i < own_weights.size(); ++i) Tensor(network->parameters()[i]).copy_(own_weights[i]);
  }
  if (CommHook hook = hook_for(run.mistake)) model.register_comm_hook(hook);
  if (run.mistake == Mistake::parameter_reduced) {
    for (const Tensor& parameter : network->parameters()) {
      parameter.register_post_accumulate_grad_hook([&group](Tensor& p) { group.all_reduce(p, ReduceOp::avg)->wait(); });
    }
    model.register_comm_hook(hook_for(Mistake::no_all_reduce));
  }
  SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.5});

  const int64_t batch = run.global_batch / run.world;
  const int64_t seed = run.mistake == Mistake::different_shuffles ? group.rank() : 0;
  const DistributedSampler sampler(60, group.size(), group.rank(), {.seed = seed});
  std::string losses, hashes;
  for (int64_t step = 0; step < run.steps; ++step) {
    const int64_t per_epoch = sampler.size() / batch;
    const std::vector<int64_t> order = sampler.order(run.mistake == Mistake::epoch_never_advanced ? 0 : step / per_epoch);
    const auto begin = order.begin() + step % per_epoch * batch;
    const std::vector<int64_t> mine(begin, begin + batch);
    if (run.delays) std::this_thread::sleep_for(std::chrono::milliseconds((step * 7 + group.rank() * 5) % 11));
    optimizer.zero_grad(step % 2 == 0);
    const Samples batch_of_rank = select(samples, mine);
    const Tensor loss = loss_for(run.network)(model(batch_of_rank.images), batch_of_rank.labels, Reduction::mean);
    loss.backward();
    optimizer.step();
    losses += fmt::format("{:.9g} ", mean_over_ranks(group, loss).item<float>());
    hashes += fmt::format("{} ", hash_of(model.parameters()));
  }
  return losses + "| " + hashes;
}

struct Outcome {
  std::vector<double> losses;
  bool ranks_agree = true;  // on every parameter bit after every step
};

Outcome outcome_of(const Run& run) {
  const auto texts = run_ranks_all(run.world, [&](int) { return train_rank(run); });
  Outcome outcome;
  std::istringstream stream(texts[0].substr(0, texts[0].find('|')));
  for (double loss; stream >> loss;) outcome.losses.push_back(loss);
  for (const std::string& text : texts) outcome.ranks_agree = outcome.ranks_agree && text.substr(text.find('|')) == texts[0].substr(texts[0].find('|'));
  return outcome;
}

Comparison against_one_process(const Run& run, const Outcome& outcome, double tolerance = 1e-6) {
  Run alone = run;
  alone.world = 1;
  alone.ddp = {};
  alone.mistake = Mistake::none;
  alone.delays = false;
  return compare(outcome.losses, outcome_of(alone).losses, tolerance, "step");
}

}  // namespace

TEST_CASE("DDP: 2, 3 and 4 processes have the losses of one process on the same global batches") {
  for (const std::string network : {"mini", "article_a", "article_b"}) {
    for (int world : {2, 3, 4}) {
      const Run run{.network = network, .world = world};
      const Outcome outcome = outcome_of(run);
      const Comparison result = against_one_process(run, outcome);
      INFO(network << ", " << world << " processes: " << result.message);
      CHECK(result.passed);
      CHECK(outcome.ranks_agree);
    }
  }
}

TEST_CASE("DDP: every way to average has the same losses, and all ranks the same bits after every step") {
  std::vector<std::pair<std::string, DdpOptions>> variants{
      {"after backward", {.kind = ReducerKind::after_backward}},
      {"per gradient", {.kind = ReducerKind::per_gradient}},
      {"buckets", {}},
      {"buckets of 1 KiB", {.reducer = {.bucket_cap_bytes = 1024}}},
      {"without overlap", {.reducer = {.bucket_cap_bytes = 1024, .overlap = false}}},
      {"views", {.reducer = {.bucket_cap_bytes = 1024, .gradient_as_bucket_view = true}}},
      {"find unused", {.reducer = {.bucket_cap_bytes = 1024, .find_unused_parameters = true}}},
      {"static graph", {.reducer = {.bucket_cap_bytes = 1024, .static_graph = true}}}};
  for (const auto& [name, options] : variants) {
    for (const std::string backend : {"gloo", "ring"}) {
      const Run run{.world = 3, .steps = 25, .ddp = options, .delays = true, .backend = backend};
      const Outcome outcome = outcome_of(run);
      const Comparison result = against_one_process(run, outcome, 1e-5);
      INFO(name << " over " << backend << ": " << result.message);
      CHECK(result.passed);
      CHECK(outcome.ranks_agree);
    }
  }
}

TEST_CASE("DDP: the same run twice has the same bits (P25)") {
  const Run run{.world = 2, .delays = true};
  CHECK(outcome_of(run).losses == outcome_of(run).losses);
}

TEST_CASE("DDP: negative controls fail parity") {
  const std::vector<std::pair<std::string, Mistake>> mistakes{{"no all-reduce", Mistake::no_all_reduce},
                                                              {"sum instead of mean", Mistake::sum_instead_of_mean},
                                                              {"no initial broadcast", Mistake::no_initial_broadcast},
                                                              {"a dropped bucket", Mistake::dropped_bucket},
                                                              {"ranks shuffle with different seeds", Mistake::different_shuffles},
                                                              {"the epoch never advances", Mistake::epoch_never_advanced},
                                                              {"the parameter is reduced instead of its gradient", Mistake::parameter_reduced}};
  for (const auto& [name, mistake] : mistakes) {
    const Run run{.world = 2, .mistake = mistake};
    const Comparison result = against_one_process(run, outcome_of(run));
    INFO(name << ": " << result.message);
    CHECK_FALSE(result.passed);
    CHECK(result.largest > 1e-4);
  }
}

TEST_CASE("P6: metrics are summed over the ranks before they are divided") {
  const auto texts = run_ranks_all(2, [](int rank) {
    const ProcessGroupGuard guard;
    const TestResult mine = rank == 0 ? TestResult{0.5, 3, 4} : TestResult{2, 1, 2};
    const TestResult all = sum_over_ranks(default_process_group(), mine, Device{});
    return fmt::format("{} of {}, loss {}", all.correct, all.total, all.average_loss);
  });
  CHECK(texts == std::vector<std::string>(2, "4 of 6, loss 1"));
}
