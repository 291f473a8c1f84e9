#include "common/tensor/tensor.h"

#include "common/nn/functional.h"
#include "common/nn/layers.h"
#include "tests/support/catch.h"

using namespace miniddp;
namespace F = miniddp::functional;
using Catch::Matchers::ContainsSubstring;

static constexpr Device cpu1{DeviceType::cpu, 1};

TEST_CASE("views share storage, copies do not") {
  Tensor x = Tensor::from({0, 1, 2, 3, 4, 5}, {3, 2});
  Tensor rows = x.narrow(1, 2);
  CHECK(rows.shape() == Shape{2, 2});
  CHECK(rows.shares_storage_with(x));
  rows.fill_(9);
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 9, 9, 9, 9});
  CHECK(x.view({-1}).shape() == Shape{6});
  CHECK_FALSE(x.clone().shares_storage_with(x));
}

TEST_CASE("shapes that do not fit are refused, with both in the message") {
  Tensor x = Tensor::zeros({3, 2});
  CHECK_THROWS_WITH(x.view({4, 2}), ContainsSubstring("(4, 2)") && ContainsSubstring("(3, 2)"));
  CHECK_THROWS_AS(x.view({-1, -1}), ShapeError);
  CHECK_THROWS_AS(x.narrow(2, 2), ShapeError);
  CHECK_THROWS_AS(x.size(2), ShapeError);
  CHECK_THROWS_AS(Tensor::zeros({-1}), ShapeError);
  CHECK_THROWS_AS(Tensor::zeros({int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
  CHECK_THROWS_AS(Tensor::from({1, 2, 3}, {2}), ShapeError);
  CHECK_THROWS_AS(x.item<float>(), ShapeError);
  CHECK_THROWS_AS(F::linear(x, Tensor::zeros({4, 3})), ShapeError);
  CHECK_THROWS_AS(F::conv2d(Tensor::zeros({1, 1, 2, 2}), Tensor::zeros({1, 1, 3, 3})), ShapeError);
  CHECK_THROWS_AS(x.data<double>(), Error);
  CHECK_THROWS_AS(Tensor().shape(), Error);
}

TEST_CASE("article A without its pooling stops with PyTorch's message") {
  const Tensor output = Tensor::zeros({256, 10});
  const Tensor target = Tensor::zeros({64}, DType::int64);
  CHECK_THROWS_WITH(F::cross_entropy(output, target), ContainsSubstring("Expected input batch_size (256) to match target batch_size (64)"));
}

TEST_CASE("virtual devices have memory of their own, and mixing them is an error") {
  Tensor x = Tensor::from({1, 2}, {2});
  Tensor there = x.to(cpu1);
  CHECK(there.device() == cpu1);
  CHECK_FALSE(there.shares_storage_with(x));
  CHECK(there.to_vector<float>() == std::vector<float>{1, 2});
  CHECK(x.to(Device{}).is_same(x));
  CHECK_THROWS_WITH(F::add(x, there), ContainsSubstring("cpu:0") && ContainsSubstring("cpu:1"));
  CHECK_THROWS_AS(x.add_(there), DeviceError);
  CHECK_THROWS_AS(Tensor::zeros({1}, DType::float32, Device{DeviceType::cpu, 64}), DeviceError);
}

TEST_CASE("memory is counted for each device, with its peak") {
  const MemoryStats before = memory_stats(cpu1);
  reset_peak_memory(cpu1);
  {
    Tensor a = Tensor::zeros({1000}, DType::float32, cpu1);
    CHECK(memory_stats(cpu1).current == before.current + 4000);
    Tensor view = a.view({10, 100});
    CHECK(memory_stats(cpu1).current == before.current + 4000);
  }
  CHECK(memory_stats(cpu1).current == before.current);
  CHECK(memory_stats(cpu1).peak == before.current + 4000);
}

TEST_CASE("device names") {
  CHECK(Device::parse("cpu") == Device{});
  CHECK(Device::parse("cuda:3") == Device{DeviceType::cuda, 3});
  CHECK(Device::parse("cpu:2").str() == "cpu:2");
  for (const char* bad : {"", "gpu", "cpu:", "cpu:x", "cpu:-1", "cpu:1x", "cuda:99999999999"}) {
    INFO(bad);
    CHECK_THROWS_AS(Device::parse(bad), DeviceError);
  }
}

namespace {

struct Tied : Cloneable<Tied> {
  Tied() {
    register_module("a", &Tied::a);
    register_module("b", &Tied::b);
    b.weight = a.weight;
  }
  Tensor forward(const Tensor& x) override { return b(a(x)); }
  Linear a{3, 3}, b{3, 3};
};

}  // namespace

TEST_CASE("modules: names, tied weights, moving, copies that share") {
  Tied model;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"a.weight", "a.bias", "b.bias"});
  CHECK(model.state_dict().size() == 4);

  auto copy = model.clone();
  CHECK(copy->parameters()[0].is_same(model.parameters()[0]));
  copy->to(cpu1);
  CHECK(copy->parameters().size() == 3);
  CHECK(copy->parameters()[0].device() == cpu1);
  CHECK(copy->parameters()[0].is_leaf());
  CHECK(copy->parameters()[0].requires_grad());
  CHECK(model.parameters()[0].device() == Device{});
  CHECK(static_cast<Tied&>(*copy).a.weight.is_same(static_cast<Tied&>(*copy).b.weight));

  model.eval();
  CHECK_FALSE(model.a.is_training());
}

TEST_CASE("load_state_dict names what does not fit, and then changes nothing") {
  Linear layer(2, 2);
  const std::vector<float> before = layer.weight.to_vector<float>();
  CHECK_THROWS_WITH(layer.load_state_dict({{"module.weight", Tensor::zeros({2, 2})}, {"bias", Tensor::zeros({2})}}),
                    ContainsSubstring("Missing key(s) in state_dict: \"weight\"") && ContainsSubstring("Unexpected key(s) in state_dict: \"module.weight\""));
  CHECK_THROWS_WITH(layer.load_state_dict({{"weight", Tensor::zeros({2, 3})}, {"bias", Tensor::zeros({2})}}), ContainsSubstring("(2, 3)"));
  CHECK(layer.weight.to_vector<float>() == before);
  layer.load_state_dict({{"weight", Tensor::ones({2, 2})}, {"bias", Tensor::zeros({2})}});
  CHECK(layer.weight.to_vector<float>() == std::vector<float>{1, 1, 1, 1});
}
