// Tests of the exercises of chapter 02.
#include <thread>

#include "chapters/02_manual_parallel/broadcast.h"
#include "chapters/02_manual_parallel/gather.h"
#include "chapters/02_manual_parallel/parallel_apply.h"
#include "chapters/02_manual_parallel/replicate.h"
#include "chapters/02_manual_parallel/scatter.h"
#include "common/nn/functional.h"
#include "tests/exercises/expect.h"
#include "tests/support/cpus.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

// One weight under two names, and a buffer.
struct Tied : Cloneable<Tied> {
  Tensor first = Tensor::from({2, 3, 5}, {3}).set_requires_grad(), second = first, mean = Tensor::from({7, 11}, {2});
  Tied() {
    register_parameter("first", &Tied::first);
    register_parameter("second", &Tied::second);
    register_buffer("mean", &Tied::mean);
  }
  Tensor forward(const Tensor& x) override { return functional::mul(functional::mul(x, first), second); }
};

}  // namespace

TEST_CASE("02.1 chunk sizes", "[02.1]") {
  using Sizes = std::vector<int64_t>;
  const auto expect_sizes = [](int64_t size, size_t devices, const Sizes& expected) {
    expect_equal(fmt::format("chunk sizes of {} samples on {} devices", size, devices), chunk_sizes(size, devices), expected);
  };
  expect_sizes(8, 4, {2, 2, 2, 2});
  expect_sizes(13, 4, {4, 4, 4, 1});
  expect_sizes(7, 3, {3, 3, 1});
  expect_sizes(5, 4, {2, 2, 1});
  expect_sizes(3, 8, {1, 1, 1});
  expect_sizes(64, 1, {64});
  expect_sizes(0, 3, {0, 0, 0});
}

TEST_CASE("02.4 gather and its backward", "[02.4]") {
  const std::vector<Device> devices = cpus(3);
  std::vector<Tensor> outputs;
  std::vector<std::vector<double>> gradients;
  double next = 1;
  for (const int64_t rows : {3, 3, 1}) {
    Tensor output = Tensor::full({rows, 2}, next++, DType::float32, devices[outputs.size()]);
    outputs.push_back(output.set_requires_grad());
  }
  const Tensor whole = gather(outputs, devices[2]);
  expect_equal("device of the gathered tensor", whole.device().str(), devices[2].str());
  expect_close("the gathered tensor", to_doubles(whole), {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3}, 0);
  expect(whole.requires_grad(), "the gathered tensor has no way back: record the operation");
  std::vector<float> ascending;
  for (int i = 0; i < 14; ++i) ascending.push_back(static_cast<float>(i));
  whole.backward(Tensor::from(ascending, {7, 2}).to(devices[2]));
  size_t at = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = fmt::format("gradient of output {}", i);
    expect(outputs[i].grad().defined(), name + " is missing");
    expect_equal("device of the " + name, outputs[i].grad().device().str(), devices[i].str());
    std::vector<double> expected;
    for (int64_t k = 0; k < outputs[i].numel(); ++k) expected.push_back(static_cast<double>(at++));
    expect_close(name, to_doubles(outputs[i].grad()), expected, 0);
  }
}

TEST_CASE("02.5 replicate's backward", "[02.5]") {
  const std::vector<Device> devices = cpus(3);
  const std::vector<Tensor> like{Tensor::zeros({2, 2}), Tensor::zeros({3}), Tensor::zeros({1})};
  for (const size_t buffer_bytes : {size_t{1}, size_t{20}, coalescing_bytes}) {  // a bucket each, two buckets, one
    for (const Device target : {devices[0], devices[2]}) {
      std::vector<std::vector<Tensor>> gradients(3);
      for (size_t d = 0; d < 3; ++d) {
        for (size_t t = 0; t < 3; ++t) {
          // Powers of ten: the sum shows which devices are in it.
          gradients[d].push_back(Tensor::full(like[t].shape(), std::vector<double>{1, 10, 100}[d] * static_cast<double>(t + 1),
                                              DType::float32, devices[d]));
        }
      }
      gradients[1][1] = Tensor();  // nobody used it there
      const std::vector<Tensor> sums = reduce_add_coalesced(gradients, like, target, devices, buffer_bytes);
      expect_equal("number of sums", sums.size(), like.size());
      const std::vector<double> expected{111, 202, 333};
      for (size_t t = 0; t < 3; ++t) {
        const std::string name = fmt::format("sum {} over three devices (gradients 1, 10 and 100 times {}{})", t, t + 1,
                                             t == 1 ? ", the one on cpu:1 undefined" : "");
        expect(sums[t].defined(), name + " is missing");
        expect_equal("device of the " + name, sums[t].device().str(), target.str());
        expect_close(name, sums[t].to(Device{}), Tensor::full(like[t].shape(), expected[t]), 0);
      }
    }
  }
}

TEST_CASE("02.6 errors of the replicas", "[02.6]") {
  using std::chrono::milliseconds;
  const std::vector<Device> devices = cpus(4);
  std::vector<int> calls(4);
  const auto expect_calls = [&] { expect_equal("calls of each body", calls, std::vector<int>{1, 1, 1, 1}); };
  parallel_for_devices(devices, [&](size_t i) { ++calls[i]; });
  expect_calls();
  calls.assign(4, 0);
  expect_throws<ShapeError>("replicas 1 and 3 fail, 3 first", "ShapeError in replica 1 on device cpu:1: too wide", [&] {
    parallel_for_devices(devices, [&](size_t i) {
      if (i == 3) {
        ++calls[i];
        throw DeviceError("gone");
      }
      std::this_thread::sleep_for(milliseconds(i == 2 ? 150 : 50));
      ++calls[i];
      if (i == 1) throw ShapeError("too wide");
    });
  });
  expect_calls();  // nobody left before the slowest was done
  calls.assign(4, 0);
  parallel_for_devices(devices, [&](size_t i) { ++calls[i]; });
  expect_calls();
  expect_throws<Error>("the only replica fails", "in replica 0 on device cpu:2: alone",
                       [&] { parallel_for_devices({devices[2]}, [](size_t) { throw Error("alone"); }); });
}

TEST_CASE("02.7 replicate", "[02.7]") {
  const std::vector<Device> devices = cpus(3);
  Tied network;
  const Replicas replicas = replicate(network, devices);
  expect_equal("number of replicas", replicas.size(), devices.size());
  for (size_t d = 0; d < devices.size(); ++d) {
    const auto& replica = dynamic_cast<const Tied&>(*replicas[d]);
    const std::string of = fmt::format(" of replica {}", d);
    expect_equal("device of the weight" + of, replica.first.device().str(), devices[d].str());
    expect_equal("device of the buffer" + of, replica.mean.device().str(), devices[d].str());
    expect_close("the weight" + of, to_doubles(replica.first), {2, 3, 5}, 0);
    expect_close("the buffer" + of, to_doubles(replica.mean), {7, 11}, 0);
    expect(replica.first.is_same(replica.second), "the weight's two names are two tensors now" + of);
    expect(replica.first.shares_storage_with(network.first) == (d == 0),
           d == 0 ? "replica 0 should share the original's memory" : "the weight" + of + " should have memory of its own");
  }
  Tensor loss;
  for (size_t d = 0; d < devices.size(); ++d) {
    const Tensor x = Tensor::full({3}, static_cast<double>(d + 1), DType::float32, devices[d]);
    const Tensor part = functional::sum((*replicas[d])(x)).to(Device{});
    loss = loss.defined() ? functional::add(loss, part) : part;
  }
  expect(loss.requires_grad(), "the replicas' outputs have no way back to the original's weight");
  loss.backward();
  // d/dw of (1 + 2 + 3) w w
  expect(network.first.grad().defined(), "the original's weight got no gradient");
  expect_close("gradient of the original's weight", to_doubles(network.first.grad()), {24, 36, 60}, 0);
}
