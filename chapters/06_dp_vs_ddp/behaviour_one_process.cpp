// The left half of the table: one process, one device or DataParallel.
#include <signal.h>

#include "chapters/02_manual_parallel/parallel_apply.h"
#include "chapters/03_data_parallel/data_parallel.h"
#include "chapters/06_dp_vs_ddp/behaviour.h"
#include "chapters/06_dp_vs_ddp/behaviour_modules.h"
#include "common/data/sampler.h"

namespace miniddp {
namespace {

namespace F = functional;

const std::vector<Device> two{{DeviceType::cpu, 0}, {DeviceType::cpu, 1}};

// The module itself, or two replicas of it.
std::shared_ptr<Module> wrap(std::shared_ptr<Module> module, bool parallel) {
  if (!parallel) return module;
  return std::make_shared<DataParallel>(std::move(module), two);
}

std::string gradient(bool parallel, const std::vector<float>& batch, bool mean) {
  const auto net = std::make_shared<OneWeight>();
  const auto model = wrap(net, parallel);
  const Tensor output = (*model)(column(batch));
  (mean ? F::mean(output) : F::sum(output)).backward();
  return number(net->weight.grad());
}

std::string running_mean(bool parallel) {
  const auto net = std::make_shared<Norm>();
  (*wrap(net, parallel))(planes({0, 2, 10, 12}));
  return number(net->bn.running_mean);
}

std::string buffer_after_three(bool parallel) {
  const auto net = std::make_shared<Summing>();
  const auto model = wrap(net, parallel);
  for (int i = 0; i < 3; ++i) (*model)(column({1, 2, 3, 4}));
  return number(net->total);
}

std::string halves_alike(bool parallel) {
  manual_seed(1);
  const auto model = wrap(std::make_shared<Dropping>(), parallel);
  const std::vector<float> out = (*model)(Tensor::ones({64, 1})).to_vector<float>();
  return yes_or_no(std::vector(out.begin(), out.begin() + 32) == std::vector(out.begin() + 32, out.end()));
}

// Does another manual_seed give another order of the samples?
std::string order_follows_seed() {
  const RandomSampler sampler(1000);
  const auto order = [&](uint64_t seed) {
    manual_seed(seed);
    return sampler.order(0, sampler.begin_pass(default_generator()));
  };
  return yes_or_no(order(1) != order(2));
}

std::string exception(bool parallel) {
  struct Fragile : Cloneable<Fragile> {
    Fragile() { register_module("inner", &Fragile::inner); }
    Tensor forward(const Tensor& x) override {
      if (fails && x.size(0) == 1) throw Error("boom");  // only the second chunk has one row
      return inner(x);
    }
    OneWeight inner;
    bool fails = true;
  };
  const auto net = std::make_shared<Fragile>();
  const auto model = wrap(net, parallel);
  const Tensor batch = parallel ? column({1, 2, 3}) : column({1});
  std::string caught = "nothing";
  try {
    (*model)(batch);
  } catch (const Error& error) {
    caught = error.what();
  }
  net->fails = false;
  return fmt::format("the caller catches \"{}\"; the next step works: {}", caught, yes_or_no((*model)(batch).size(0) == batch.size(0)));
}

std::string samples_evaluated(bool parallel) {
  const auto model = wrap(std::make_shared<OneWeight>(), parallel);
  const SequentialSampler sampler(11);
  int64_t counted = 0;
  for (size_t i = 0; i < sampler.order(0, Generator(0)).size(); i += 4) {
    const int64_t rows = std::min<int64_t>(4, 11 - static_cast<int64_t>(i));
    counted += (*model)(Tensor::ones({rows, 1})).size(0);
  }
  return fmt::format("{} of 11 samples counted", counted);
}

}  // namespace

Findings find_in_one_process(bool parallel) {
  Findings found;
  found["gradients"] = gradient(parallel, {1, 2, 3, 4}, false);
  found["uneven"] = gradient(parallel, {1, 2, 3}, true);
  found["batch_norm"] = running_mean(parallel);
  found["buffers"] = buffer_after_three(parallel);
  found["dropout"] = halves_alike(parallel);
  found["random"] = order_follows_seed();
  found["state_dict"] = wrap(std::make_shared<OneWeight>(), parallel)->state_dict().at(0).first;
  found["exception"] = exception(parallel);
  found["loss"] = number(F::mean((*wrap(std::make_shared<OneWeight>(), parallel))(column({1, 2, 3, 4}))));
  found["evaluation"] = samples_evaluated(parallel);
  return found;
}

void die_in_a_replica() {
  parallel_for_devices(two, [](size_t replica) {
    if (replica == 1) raise(SIGKILL);
  });
}

}  // namespace miniddp
