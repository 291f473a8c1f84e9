// The right half of the table: one of two processes, in DistributedDataParallel.
#include <signal.h>

#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"
#include "chapters/05_distributed_data_parallel/evaluate_distributed.h"
#include "chapters/06_dp_vs_ddp/behaviour.h"
#include "chapters/06_dp_vs_ddp/behaviour_modules.h"
#include "common/core/recorder.h"

namespace miniddp {
namespace {

namespace F = functional;

InitOptions init_options() {
  InitOptions init;
  init.backend = "ring";
  init.rendezvous_timeout = Milliseconds(60'000);
  init.timeout = Milliseconds(30'000);
  return init;
}

std::vector<float> share(int rank, const std::vector<float>& first, const std::vector<float>& second) { return rank == 0 ? first : second; }

std::string gradient(int rank, const std::vector<float>& first, const std::vector<float>& second, bool mean) {
  const auto net = std::make_shared<OneWeight>();
  DistributedDataParallel model(net);
  const Tensor output = model(column(share(rank, first, second)));
  (mean ? F::mean(output) : F::sum(output)).backward();
  return number(net->weight.grad());
}

std::string running_mean(int rank) {
  const auto net = std::make_shared<Norm>();
  DistributedDataParallel model(net);
  F::sum(model(planes(share(rank, {0, 2}, {10, 12})))).backward();
  return number(net->bn.running_mean);
}

// The sum after three steps, and after the broadcast at the fourth forward less that forward's own.
std::string buffer_after_three(int rank) {
  const auto net = std::make_shared<Summing>();
  DistributedDataParallel model(net);
  const std::vector<float> mine = share(rank, {1, 2}, {3, 4});
  const auto step = [&] { F::sum(model(column(mine))).backward(); };
  for (int i = 0; i < 3; ++i) step();
  const std::string before = number(net->total);
  step();
  return fmt::format("{}, then {:.4g}", before, net->total.item<double>() - mine[0] - mine[1]);
}

std::vector<float> mask(uint64_t seed) {
  manual_seed(seed);
  DistributedDataParallel model(std::make_shared<Dropping>());
  const Tensor output = model(Tensor::ones({32, 1}));
  F::sum(output).backward();
  return output.to_vector<float>();
}

bool same_on_both(ProcessGroup& group, const std::vector<float>& values) {
  Tensor mine = Tensor::from(values, {static_cast<int64_t>(values.size())});
  std::vector<Tensor> all{Tensor::zeros_like(mine), Tensor::zeros_like(mine)};
  group.all_gather(all, mine)->wait();
  return all[0].to_vector<float>() == all[1].to_vector<float>();
}

std::string order_follows_seed(const ProcessGroup& group) {
  const DistributedSampler sampler(1000, group.size(), group.rank());
  const auto order = [&](uint64_t seed) {
    manual_seed(seed);
    return sampler.order(0, sampler.begin_pass(default_generator()));
  };
  return yes_or_no(order(1) != order(2));
}

std::string loss(ProcessGroup& group) {
  DistributedDataParallel model(std::make_shared<OneWeight>());
  const Tensor own = F::mean(model(column(share(group.rank(), {1, 2}, {3, 4}))));
  own.backward();
  return fmt::format("{} on its own, {} as the mean over the ranks", number(own), number(mean_over_ranks(group, own)));
}

std::string samples_evaluated(ProcessGroup& group) {
  const auto sum = [&](int64_t mine) {
    Tensor total = Tensor::from(std::vector<int64_t>{mine}, {1});
    group.all_reduce(total)->wait();
    return total.item<int64_t>();
  };
  const int64_t padded = sum(DistributedSampler(11, group.size(), group.rank()).size());
  const int64_t once = sum(UnpaddedSampler(11, group.size(), group.rank()).size());
  return fmt::format("{} of 11 samples counted; with DistributedSampler {}, one of them twice", once, padded);
}

// Steps until something fails: the message, and after how many milliseconds of the step. Rank 1 does `failure` before its third step.
std::string steps_until_failure(int rank, void (*failure)()) {
  DistributedDataParallel model(std::make_shared<OneWeight>());
  for (int step = 0; step < 1000; ++step) {
    if (rank == 1 && step == 2) failure();
    const int64_t began = steady_nanoseconds();
    try {
      F::sum(model(column({1, 2}))).backward();
    } catch (const Error& error) {
      return fmt::format("{}\n{:.0f}", error.what(), static_cast<double>(steady_nanoseconds() - began) / 1e6);
    }
  }
  throw Error("rank {} noticed nothing in 1000 steps", rank);
}

}  // namespace

Findings find_as_rank() {
  Findings found;
  const ProcessGroupGuard guard(init_options());
  ProcessGroup& group = default_process_group();
  const int rank = group.rank();
  found["gradients"] = gradient(rank, {1, 2}, {3, 4}, false);
  found["uneven"] = gradient(rank, {1, 2}, {3}, true);
  found["batch_norm"] = running_mean(rank);
  found["buffers"] = buffer_after_three(rank);
  found["dropout"] = yes_or_no(same_on_both(group, mask(1)));
  found["dropout_seeded"] = yes_or_no(same_on_both(group, mask(1 + static_cast<uint64_t>(rank))));
  found["random"] = order_follows_seed(group);
  found["state_dict"] = DistributedDataParallel(std::make_shared<OneWeight>()).state_dict().at(0).first;
  found["loss"] = loss(group);
  found["evaluation"] = samples_evaluated(group);
  return found;
}

Findings find_as_thrower() {
  std::string text;
  try {
    const ProcessGroupGuard guard(init_options());
    text = steps_until_failure(default_process_group().rank(), [] { throw Error("boom"); });
  } catch (const Error& error) {
    text = error.what();
  }
  return {{"exception", text}};
}

Findings find_as_survivor() {
  signal(SIGTERM, SIG_IGN);  // the launcher ends what is left; this rank first writes down what it saw
  const ProcessGroupGuard guard(init_options());
  return {{"killed", steps_until_failure(default_process_group().rank(), [] { raise(SIGKILL); })}};
}

}  // namespace miniddp
