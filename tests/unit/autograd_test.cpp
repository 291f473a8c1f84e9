// The tape and the engine.
#include "common/autograd/engine.h"
#include "common/autograd/node.h"
#include "common/nn/functional.h"
#include "tests/support/catch.h"
#include "tests/support/gradients.h"

using namespace miniddp;
using namespace miniddp::testing;
namespace F = miniddp::functional;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("gradients accumulate until they are cleared") {
  Tensor x = Tensor::from({1, 2, 3}, {3}).set_requires_grad();
  F::sum(F::mul(x, x)).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{2, 4, 6});
  F::sum(x).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{3, 5, 7});
  x.set_grad({});
  F::sum(x).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("D16: leaves of one addition own their gradients") {
  Tensor a = Tensor::from({1, 2}, {2}).set_requires_grad();
  Tensor b = Tensor::from({3, 4}, {2}).set_requires_grad();
  F::sum(F::add(a, b)).backward();
  CHECK_FALSE(a.grad().shares_storage_with(b.grad()));
  a.grad().mul_(10);
  CHECK(b.grad().to_vector<float>() == std::vector<float>{1, 1});
}

TEST_CASE("a second backward needs retain_graph") {
  Tensor x = Tensor::from({2}, {1}).set_requires_grad();
  Tensor y = F::sum(F::mul(x, x));
  y.backward({}, true);
  y.backward();
  CHECK(x.grad().item<float>() == 8);
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("second time"));
}

TEST_CASE("no_grad records nothing, in this thread and scope only") {
  Tensor x = Tensor::from({2}, {1}).set_requires_grad();
  {
    NoGrad no_grad;
    CHECK_FALSE(F::mul(x, x).requires_grad());
  }
  CHECK(F::mul(x, x).requires_grad());
  CHECK_THROWS_WITH(F::mul(x.detach(), x.detach()).backward(), ContainsSubstring("does not require a gradient"));
}

TEST_CASE("backward from a tensor that is no scalar needs a gradient of its shape") {
  Tensor x = Tensor::from({1, 2}, {2}).set_requires_grad();
  Tensor y = F::scale(x, 3);
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("scalar"));
  CHECK_THROWS_AS(y.backward(Tensor::from({1}, {1})), ShapeError);
  y.backward(Tensor::from({1, 10}, {2}));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{3, 30});
}

TEST_CASE("hooks fire once for each backward, after the gradient is complete, latest layer first") {
  Tensor first = Tensor::from({2}, {1}).set_requires_grad();
  Tensor second = Tensor::from({3}, {1}).set_requires_grad();
  std::vector<std::string> order;
  first.register_post_accumulate_grad_hook([&](Tensor& p) { order.push_back(fmt::format("first {}", p.grad().item<float>())); });
  const int number =
      second.register_post_accumulate_grad_hook([&](Tensor& p) { order.push_back(fmt::format("second {}", p.grad().item<float>())); });
  const auto forward = [&] { return F::sum(F::mul(F::mul(first, first), second)); };
  forward().backward();
  CHECK(order == std::vector<std::string>{"second 4", "first 12"});
  second.remove_hook(number);
  forward().backward();
  CHECK(order == std::vector<std::string>{"second 4", "first 12", "first 24"});
}

TEST_CASE("replicas on several devices: the sum is the same every time, and callbacks run last") {
  Tensor w = random_tensor({7, 13}, 1, DType::float32).set_requires_grad();
  std::vector<float> reference;
  for (int run = 0; run < 20; ++run) {
    w.set_grad({});
    std::vector<Tensor> losses;
    for (int i = 0; i < 4; ++i) {
      const Device device{DeviceType::cpu, i};
      Tensor x = random_tensor({5 + i, 13}, 10u + static_cast<unsigned>(i), DType::float32, device);
      losses.push_back(F::sum(F::relu(F::linear(x, w.to(device)))));
    }
    bool called = false;
    const int hook = w.register_post_accumulate_grad_hook([&](Tensor& parameter) {
      queue_backward_callback([&called, parameter] { called = parameter.grad().defined(); });
    });
    backward(losses);
    w.remove_hook(hook);
    CHECK(called);
    const std::vector<float> grad = w.grad().to_vector<float>();
    if (run == 0) reference = grad;
    CHECK(grad == reference);
  }
}

TEST_CASE("an error in backward reaches the caller, with one device and with several, and the next run works") {
  Tensor x = Tensor::from({2}, {1}).set_requires_grad();
  for (int index : {0, 1}) {
    Tensor there = x.to(Device{DeviceType::cpu, index});
    Tensor y = F::scale(there, 2);
    record("Broken", {y}, y, [](Grads) -> Grads { throw Error("boom"); });
    CHECK_THROWS_WITH(y.backward(), ContainsSubstring("boom"));
    x.set_grad({});
    F::scale(x.to(Device{DeviceType::cpu, index}), 5).backward();
    CHECK(x.grad().item<float>() == 5);
  }
}

TEST_CASE("a long chain of operations is built, run and destroyed without deep recursion") {
  Tensor x = Tensor::from({1}, {1}).set_requires_grad();
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = F::scale(y, 1);
  y.backward();
  CHECK(x.grad().item<float>() == 1);
}
