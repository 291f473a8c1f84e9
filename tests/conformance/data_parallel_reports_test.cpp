// What users of data parallelism reported as broken, lost or hanging, as tests, numbered D1 to D18. Those that are numbered
// cases of PyTorch's semantics too are in data_parallel_test.cpp (D4, D5, D7, D12) and in the parity tests (D1, D5, D6).
#include <filesystem>
#include <future>
#include <mutex>
#include <set>

#include "chapters/02_manual_parallel/check_copy.h"
#include "chapters/02_manual_parallel/parallel_apply.h"
#include "chapters/02_manual_parallel/scatter.h"
#include "chapters/03_data_parallel/data_parallel.h"
#include "common/optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/check_agrees.h"
#include "tests/support/cpus.h"
#include "tests/support/gradients.h"
#include "tests/support/networks.h"
#include "tests/support/warnings.h"

using namespace miniddp;
using namespace miniddp::testing;
namespace F = miniddp::functional;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Loss and gradients of Mini on the first `count` samples of D64.
double run_mini(Module& model, Mini& network, int64_t count) {
  network.zero_grad();
  const Samples samples = d64();
  const Tensor loss = F::cross_entropy(model(samples.images.narrow(0, count)), samples.labels.narrow(0, count));
  loss.backward();
  return loss.item<double>();
}

}  // namespace

TEST_CASE("data parallel, D1: gradients reach the original, and the loss falls") {
  manual_seed(1);
  const auto single = std::make_shared<Mini>(), shared = std::make_shared<Mini>();
  shared->load_state_dict(single->state_dict());
  DataParallel model(shared, cpus(3));
  run_mini(*single, *single, 12);
  const double first = run_mini(model, *shared, 12);
  const auto expected = single->named_parameters(), found = shared->named_parameters();
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO(expected[i].first);
    REQUIRE(found[i].second.grad().defined());
    check_agrees(compare(found[i].second.grad(), expected[i].second.grad(), 1e-6));
  }
  SGD optimizer(shared->parameters(), {.lr = 0.1});
  double last = first;
  for (int step = 0; step < 50; ++step) {
    last = run_mini(model, *shared, 12);
    optimizer.step();
  }
  CHECK(last < first);
}

TEST_CASE("data parallel, D2: any batch on 4 and 7 devices gives the single device's output and gradient") {
  manual_seed(1);
  const auto network = std::make_shared<Mini>();
  for (const int devices : {4, 7}) {
    DataParallel model(network, cpus(devices));
    for (const int64_t batch : {1, 3, 5, 6, 10, 36}) {
      INFO(batch << " samples on " << devices << " devices");
      const double expected_loss = run_mini(*network, *network, batch);
      std::vector<Tensor> expected;
      for (const Tensor& parameter : network->parameters()) expected.push_back(parameter.grad());
      CHECK(run_mini(model, *network, batch) == Approx(expected_loss).margin(1e-6));
      CHECK(model(d64().images.narrow(0, batch)).shape() == Shape{batch, 10});
      for (size_t i = 0; i < expected.size(); ++i) check_agrees(compare(network->parameters()[i].grad(), expected[i], 1e-6));
    }
  }
}

TEST_CASE("data parallel, D8: an error in a replica names it, and leaves no thread behind") {
  struct Fragile : Cloneable<Fragile> {
    Fragile() { register_module("linear", &Fragile::linear); }
    Tensor forward(const Tensor& x) override {
      if (x.device().index == 2 && fails) throw std::runtime_error("boom");
      return linear(x);
    }
    Linear linear{3, 2};
    bool fails = true;
  };
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto module = std::make_shared<Fragile>();
  DataParallel model(module, cpus(4));
  module->fails = false;
  F::sum(model(Tensor::ones({8, 3}))).backward();  // every worker there is has started
  const auto before = threads();
  module->fails = true;
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH(model(Tensor::ones({8, 3})), ContainsSubstring("replica 2 on device cpu:2") && ContainsSubstring("boom"));
  }
  module->fails = false;
  CHECK(model(Tensor::ones({8, 3})).shape() == Shape{8, 2});
  CHECK(threads() == before);
}

TEST_CASE("data parallel, D10: device 0 holds more, with the loss inside the replicas less so") {
  // The output is the large thing here, and the gathered copy of it is what device 0 has in addition.
  struct WithLoss : Cloneable<WithLoss> {
    explicit WithLoss(bool loss_inside) : loss_inside(loss_inside) { register_module("linear", &WithLoss::linear); }
    Tensor forward(const Tensor& x) override {
      const Tensor scores = linear(x);
      return loss_inside ? F::sum(scores) : scores;
    }
    Linear linear{5, 3000};
    bool loss_inside;
  };
  const CaughtWarnings warnings;
  const auto gap = [](bool loss_inside) {
    DataParallel model(std::make_shared<WithLoss>(loss_inside), cpus(2));
    const Tensor x = Tensor::ones({40, 5});
    for (Device device : cpus(2)) reset_peak_memory(device);
    const int64_t held[] = {memory_stats(cpus(2)[0]).current, memory_stats(cpus(2)[1]).current};
    F::sum(model(x)).backward();
    const int64_t first = memory_stats(cpus(2)[0]).peak, second = memory_stats(cpus(2)[1]).peak;
    CHECK(first > second);
    return (first - held[0]) - (second - held[1]);
  };
  const int64_t outside = gap(false), inside = gap(true);
  CHECK(outside - inside >= 40 * 3000 * 4);
}

TEST_CASE("data parallel, D13: two DataParallels stepped from two threads, on the same devices") {
  const auto train = [](std::shared_ptr<Mini> network, unsigned seed) {
    DataParallel model(network, cpus(3));
    SGD optimizer(network->parameters(), {.lr = 0.1});
    const Samples samples = random_samples(seed, 7);
    double loss = 0;
    for (int step = 0; step < 100; ++step) {
      optimizer.zero_grad();
      const Tensor each = F::cross_entropy(model(samples.images), samples.labels);
      each.backward();
      optimizer.step();
      loss = each.item<double>();
    }
    return loss;
  };
  const auto make_two = [] {
    manual_seed(1);
    return std::vector<std::shared_ptr<Mini>>{std::make_shared<Mini>(), std::make_shared<Mini>()};
  };
  const auto alone = make_two(), together = make_two();
  const double a = train(alone[0], 5), b = train(alone[1], 6);
  auto first = std::async(std::launch::async, train, together[0], 5);
  auto second = std::async(std::launch::async, train, together[1], 6);
  CHECK(first.get() == a);  // bit for bit; the test's time limit notices a deadlock
  CHECK(second.get() == b);
}

TEST_CASE("data parallel: a replica that is itself parallel, and a backward inside a replica, do not wait for themselves") {
  struct Nested : Cloneable<Nested> {
    Nested() { register_module("linear", &Nested::linear); }
    Tensor forward(const Tensor& x) override {
      // Both devices are used again from inside each replica.
      const auto own = cpus(2);
      std::vector<Tensor> sums(2);
      parallel_for_devices(own, [&](size_t i) {
        Tensor leaf = x.detach().to(own[i]).clone().set_requires_grad();
        F::add(F::sum(leaf.to(own[0])), F::sum(leaf.to(own[1])).to(own[0])).backward();
        sums[i] = leaf.grad();
      });
      return F::add(linear(x), F::scale(linear(sums[1].to(x.device())), 0));
    }
    Linear linear{3, 3};
  };
  const auto network = std::make_shared<Nested>();
  DataParallel model(network, cpus(2));
  const Tensor x = random_tensor({5, 3}, 1, DType::float32);
  check_agrees(compare(model(x), network->linear(x), 1e-6));
}

TEST_CASE("data parallel, D14: a copy between devices that arrives damaged is noticed, with both names") {
  const auto devices = cpus(3);
  CHECK_NOTHROW(check_copy(devices[1], devices[2]));
  const auto flip_last = [](Tensor& copy) { copy.data<uint8_t>()[copy.numel() - 1] ^= 1; };
  CHECK_THROWS_AS(check_copy(devices[1], devices[2], flip_last), DeviceError);
  CHECK_THROWS_WITH(check_copy(devices[1], devices[2], flip_last), ContainsSubstring("from cpu:1 to cpu:2 arrived damaged"));
}

TEST_CASE("data parallel, D15: devices draw from their own generators: equal seeds, equal masks at first") {
  struct Dropping : Cloneable<Dropping> {
    Dropping() {
      register_module("linear", &Dropping::linear);
      register_module("dropout", &Dropping::dropout);
    }
    Tensor forward(const Tensor& x) override { return dropout(x); }
    Linear linear{1, 1};
    Dropout dropout{0.5};
  };
  const auto network = std::make_shared<Dropping>();
  DataParallel model(network, cpus(2));
  const auto run = [&] { return model(Tensor::ones({2, 200})).to_vector<float>(); };
  manual_seed(7);
  const auto first = run(), second = run();
  const auto half = [](const std::vector<float>& values, int which) {
    return std::vector<float>(values.begin() + which * 200, values.begin() + (which + 1) * 200);
  };
  CHECK(half(first, 0) == half(first, 1));  // both seeded alike, both chunks of one shape
  CHECK(half(first, 0) != half(second, 0));
  manual_seed(7);
  CHECK(run() == first);
  network->eval();
  CHECK(run() == std::vector<float>(400, 1));
}

TEST_CASE("data parallel, D18: labels take the same way as images, to the last sample") {
  struct LossInside : Cloneable<LossInside> {
    LossInside() { register_module("linear", &LossInside::linear); }
    Tensor forward(const Tensor& x) override { return linear(x); }
    Value forward_values(const Inputs& in) override {
      return F::cross_entropy(linear(in.args[0].tensor()), in.args[1].tensor(), Reduction::sum);
    }
    Linear linear{6, 10};
  };
  const CaughtWarnings warnings;
  const auto network = std::make_shared<LossInside>();
  DataParallel model(network, cpus(4));
  for (const int64_t batch : {32, 1, 33 - 32 + 2}) {
    const Tensor x = random_tensor({batch, 6}, 2, DType::float32);
    std::vector<int64_t> classes;
    for (int64_t i = 0; i < batch; ++i) classes.push_back(i % 10);
    const Tensor labels = Tensor::from(classes, {batch});
    const Tensor losses = model(Inputs{{x, labels}, {}}).tensor();
    CHECK(losses.size(0) == static_cast<int64_t>(chunk_sizes(batch, 4).size()));
    CHECK(F::sum(losses).item<float>() == Approx(F::cross_entropy(network->linear(x), labels, Reduction::sum).item<float>()));
  }
}

TEST_CASE("data parallel: hooks run once for each replica, on gradients once") {
  manual_seed(2);
  const auto network = std::make_shared<Linear>(3, 2);
  std::mutex mutex;
  std::multiset<std::string> forwards;
  int gradients = 0;
  network->register_forward_hook([&](Module&, const Inputs& inputs, const Value&) {
    std::lock_guard lock(mutex);
    forwards.insert(inputs.args[0].tensor().device().str());
  });
  network->weight.register_post_accumulate_grad_hook([&](Tensor&) {
    std::lock_guard lock(mutex);
    ++gradients;
  });
  DataParallel model(network, cpus(3));
  F::sum(model(Tensor::ones({6, 3}))).backward();
  CHECK(forwards == std::multiset<std::string>{"cpu:0", "cpu:1", "cpu:2"});
  CHECK(gradients == 1);
}

TEST_CASE("data parallel: zero_grad inside a replica warns and does nothing") {
  struct Zeroing : Cloneable<Zeroing> {
    Zeroing() { register_module("linear", &Zeroing::linear); }
    Tensor forward(const Tensor& x) override {
      zero_grad();
      return linear(x);
    }
    Linear linear{3, 2};
  };
  const CaughtWarnings warnings;
  const auto network = std::make_shared<Zeroing>();
  DataParallel model(network, cpus(2));
  F::sum(model(Tensor::ones({4, 3}))).backward();
  CHECK(warnings.messages().size() == 2);
  F::sum(model(Tensor::ones({4, 3}))).backward();
  CHECK(network->linear.bias.grad().to_vector<float>() == std::vector<float>{8, 8});  // both backwards are in it
}

TEST_CASE("data parallel: names begin with module., and load without it") {
  const auto network = std::make_shared<Linear>(3, 2);
  DataParallel model(network, cpus(2));
  const NamedTensors state = model.state_dict();
  REQUIRE(state.size() == 2);
  CHECK(state[0].first == "module.weight");
  CHECK(state[1].first == "module.bias");
  Linear bare(3, 2);
  CHECK_THROWS_WITH(bare.load_state_dict(state), ContainsSubstring("Missing key(s) in state_dict: \"weight\", \"bias\"") &&
                                                     ContainsSubstring("Unexpected key(s)"));
  bare.load_state_dict(consume_prefix_in_state_dict_if_present(state));
  CHECK(bare.weight.to_vector<float>() == network->weight.to_vector<float>());
  model.eval();
  CHECK_FALSE(network->is_training());
  const auto copy = model.clone();
  CHECK(copy->parameters()[0].is_same(network->weight));
}

TEST_CASE("data parallel: devices, defaults and the warning about unlike ones") {
  DataParallel all(std::make_shared<Linear>(3, 2));
  CHECK(all.device_ids().size() == static_cast<size_t>(device_count(DeviceType::cpu)));
  CHECK(all.output_device() == Device{});
  CHECK_THROWS_WITH(DataParallel(std::make_shared<Dropout>()), ContainsSubstring("name them"));
  CHECK_THROWS_AS(DataParallel(nullptr), Error);

  const auto devices = cpus(3);
  const std::vector<DeviceProperties> alike{{100, 10}, {80, 8}, {90, 9}}, memory{{100, 10}, {70, 10}, {99, 10}}, cores{{100, 4}, {100, 8}, {100, 8}};
  CHECK(imbalance_warning(devices, alike).empty());
  CHECK(imbalance_warning(devices, std::vector<DeviceProperties>(3)).empty());
  CHECK_THAT(imbalance_warning(devices, memory), ContainsSubstring("exclude GPU cpu:1 which has less than 75% of the memory or cores of GPU cpu:0"));
  CHECK_THAT(imbalance_warning(devices, cores), ContainsSubstring("exclude GPU cpu:0 which has less than 75% of the memory or cores of GPU cpu:1"));
}
