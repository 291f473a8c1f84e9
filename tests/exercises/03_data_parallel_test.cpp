// Tests of the exercises of chapter 03.
#include <atomic>

#include "chapters/03_data_parallel/data_parallel.h"
#include "common/nn/functional.h"
#include "common/nn/layers.h"
#include "tests/exercises/expect.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

struct Scale : Cloneable<Scale> {
  Tensor weight, mean;
  Scale(Device weight_device, Device mean_device)
      : weight(Tensor::ones({3}, DType::float32, weight_device)), mean(Tensor::ones({3}, DType::float32, mean_device)) {
    register_parameter("weight", &Scale::weight);
    register_buffer("mean", &Scale::mean);
  }
  Tensor forward(const Tensor& input) override { return input; }
};

// Twice its input, and 1 without one. Counts its calls, those of its replicas too.
struct Twice : Cloneable<Twice> {
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  Tensor weight = Tensor::ones({1});
  Twice() { register_parameter("weight", &Twice::weight); }
  Tensor forward(const Tensor& input) override { return functional::scale(input, 2); }
  Value forward_values(const Inputs& inputs) override {
    ++*calls;
    return inputs.args.empty() ? Value(Tensor::ones({1})) : Value(forward(inputs.args[0].tensor()));
  }
};

}  // namespace

TEST_CASE("03.1 the module is where it should be", "[03.1]") {
  const Device first{DeviceType::cpu, 0}, second{DeviceType::cpu, 1};
  check_is_on(Scale(first, first), first);
  check_is_on(Scale(second, second), second);
  const auto expect_message = [&](const std::string& what, const Scale& module, Device device, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) expect_throws<DeviceError>(what, part, [&] { check_is_on(module, device); });
  };
  expect_message("a buffer on cpu:1, the rest on cpu:0", Scale(first, second), first, {"cpu:0", "device: cpu:1", "mean", "to(device)"});
  expect_message("a parameter on cpu:1, the rest on cpu:0", Scale(second, first), first, {"cpu:0", "device: cpu:1", "weight", "to(device)"});
  expect_message("all on cpu:0, asked for cpu:1", Scale(first, first), second, {"cpu:1", "device: cpu:0", "weight", "to(device)"});
}

TEST_CASE("03.2 names without module.", "[03.2]") {
  NamedTensors state;
  for (const char* name : {"module.fc1.weight", "module.module.bias", "encoder.module.weight", "module", "modules.a"}) {
    state.emplace_back(name, Tensor::full({2}, static_cast<double>(state.size() + 1)));
  }
  const auto expect_names = [&](const std::string& prefix, const std::vector<std::string>& expected) {
    const NamedTensors found = consume_prefix_in_state_dict_if_present(state, prefix);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : found) names.push_back(name);
    expect_equal("names without '" + prefix + "'", names, expected);
    for (size_t i = 0; i < found.size(); ++i) expect(found[i].second.is_same(state[i].second), "another tensor than before belongs to " + names[i]);
  };
  expect_names("module.", {"fc1.weight", "module.bias", "encoder.module.weight", "module", "modules.a"});
  expect_names("encoder.", {"module.fc1.weight", "module.module.bias", "module.weight", "module", "modules.a"});
}

TEST_CASE("03.3 DataParallel's forward", "[03.3]") {
  const Device first{DeviceType::cpu, 0}, second{DeviceType::cpu, 1}, third{DeviceType::cpu, 2};
  const std::vector<Device> devices{first, second, third};
  manual_seed(5);
  const auto linear = std::make_shared<Linear>(2, 4);
  const auto grads = [&] {
    std::vector<Tensor> copies;
    for (const Tensor& parameter : linear->parameters()) {
      expect(parameter.grad().defined(), "a parameter of the module got no gradient");
      copies.push_back(parameter.grad().clone());
      Tensor(parameter).set_grad(Tensor());
    }
    return copies;
  };
  for (const int64_t samples : {7, 2}) {
    std::vector<float> values;
    for (int64_t i = 0; i < 2 * samples; ++i) values.push_back(static_cast<float>(i) - 2.5F);
    const Tensor x = Tensor::from(values, {samples, 2});
    const Tensor expected = (*linear)(x);
    functional::sum(functional::mul(expected, expected)).backward();
    const std::vector<Tensor> expected_grads = grads();
    for (const std::vector<Device>& used : {devices, {first}}) {
      DataParallel parallel(linear, used);
      const std::string name = fmt::format("{} samples on {} device{}", samples, used.size(), used.size() > 1 ? "s" : "");
      const Tensor y = parallel(x);
      expect_close("output, " + name, y, expected.detach(), 1e-6);
      functional::sum(functional::mul(y, y)).backward();
      const std::vector<Tensor> found = grads();
      for (size_t i = 0; i < found.size(); ++i) expect_close("gradient of " + std::string(i == 0 ? "weight" : "bias") + ", " + name, found[i], expected_grads[i], 1e-3);
    }
  }
  const auto twice = std::make_shared<Twice>();
  const Tensor x = Tensor::from({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  DataParallel across(twice, devices, third, 1);
  const Tensor y = across(x);
  expect_equal("device of the output, output_device cpu:2", y.device().str(), third.str());
  expect_close("output, samples along dimension 1", y, functional::scale(x, 2).to(third), 0);
  expect_equal("calls of the module for 4 samples in chunks of 2 on 3 devices", twice->calls->load(), 2);
  *twice->calls = 0;
  DataParallel plain(twice, devices);
  expect_equal("elements of the output without any argument", plain.forward_values({}).tensor().numel(), int64_t{1});
  expect_equal("calls of the module without any argument", twice->calls->load(), 1);
}
