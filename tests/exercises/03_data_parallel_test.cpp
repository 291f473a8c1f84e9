// Tests of the exercises of chapter 03.
#include "chapters/03_data_parallel/data_parallel.h"
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
