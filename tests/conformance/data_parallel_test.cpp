// Scatter, replicate, parallel_apply, gather and DataParallel behave as PyTorch's: cases 31 to 49.
// Not expressible: the second derivative of case 43 (the tape records first derivatives only; what it says of unused parameters is
// tested), and the traceback text of case 40 (C++ has none; type, replica, device and message are tested).
#include <atomic>
#include <filesystem>

#include "chapters/02_manual_parallel/broadcast.h"
#include "chapters/02_manual_parallel/gather.h"
#include "chapters/02_manual_parallel/parallel_apply.h"
#include "chapters/02_manual_parallel/replicate.h"
#include "chapters/02_manual_parallel/scatter.h"
#include "chapters/03_data_parallel/data_parallel.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"
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

using Floats = std::vector<float>;

Floats floats(const Tensor& tensor) { return tensor.to_vector<float>(); }

Tensor numbers(const Shape& shape, Device device = {}) {
  Floats values(static_cast<size_t>(numel_of(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return Tensor::from(values, shape, device);
}

/// A module from a function of its inputs, with a Linear(in, out) to have parameters.
struct Scripted : Cloneable<Scripted> {
  using Function = std::function<Value(Scripted& self, const Inputs& inputs)>;
  Scripted(int64_t in, int64_t out, Function function) : linear(in, out), function_(std::move(function)) {
    register_module("linear", &Scripted::linear);
  }
  Tensor forward(const Tensor& x) override { return forward_values({{x}, {}}).tensor(); }
  Value forward_values(const Inputs& inputs) override { return function_(*this, inputs); }

  Linear linear;
  int calls = 0;

 private:
  Function function_;
};

std::shared_ptr<Scripted> scripted(int64_t in, int64_t out, Scripted::Function function) {
  manual_seed(3);
  return std::make_shared<Scripted>(in, out, std::move(function));
}

Value call_linear(Scripted& self, const Inputs& inputs) { return self.linear(inputs.get(0, "input").tensor()); }

}  // namespace

// --- scatter ------------------------------------------------------------------------------------------------------

TEST_CASE("data parallel, case 31: chunk sizes") {
  using Sizes = std::vector<int64_t>;
  CHECK(chunk_sizes(1, 4) == Sizes{1});
  CHECK(chunk_sizes(2, 4) == Sizes{1, 1});
  CHECK(chunk_sizes(3, 2) == Sizes{2, 1});
  CHECK(chunk_sizes(4, 3) == Sizes{2, 2});
  CHECK(chunk_sizes(5, 2) == Sizes{3, 2});
  CHECK(chunk_sizes(5, 3) == Sizes{2, 2, 1});
  CHECK(chunk_sizes(5, 4) == Sizes{2, 2, 1});
  CHECK(chunk_sizes(6, 4) == Sizes{2, 2, 2});
  CHECK(chunk_sizes(7, 3) == Sizes{3, 3, 1});
  CHECK(chunk_sizes(7, 4) == Sizes{2, 2, 2, 1});
  CHECK(chunk_sizes(8, 3) == Sizes{3, 3, 2});
  CHECK(chunk_sizes(9, 4) == Sizes{3, 3, 3});
  CHECK(chunk_sizes(9, 8) == Sizes{2, 2, 2, 2, 1});
  CHECK(chunk_sizes(10, 3) == Sizes{4, 4, 2});
  CHECK(chunk_sizes(10, 4) == Sizes{3, 3, 3, 1});
  CHECK(chunk_sizes(16, 3) == Sizes{6, 6, 4});
  CHECK(chunk_sizes(17, 4) == Sizes{5, 5, 5, 2});
  CHECK(chunk_sizes(17, 8) == Sizes{3, 3, 3, 3, 3, 2});
  CHECK(chunk_sizes(64, 3) == Sizes{22, 22, 20});
  CHECK(chunk_sizes(100, 3) == Sizes{34, 34, 32});
  CHECK(chunk_sizes(100, 8) == Sizes{13, 13, 13, 13, 13, 13, 13, 9});
  CHECK(chunk_sizes(128, 3) == Sizes{43, 43, 42});
  CHECK(chunk_sizes(36, 7) == Sizes{6, 6, 6, 6, 6, 6});
}

TEST_CASE("data parallel, case 32: an empty batch makes empty chunks, a scalar none") {
  const auto chunks = scatter(Tensor::empty({0, 3}), cpus(3));
  REQUIRE(chunks.size() == 3);
  for (const Tensor& chunk : chunks) CHECK(chunk.shape() == Shape{0, 3});
  CHECK_THROWS_WITH(scatter(Tensor::ones({}), cpus(2)), ContainsSubstring("chunk expects at least a 1-dimensional tensor"));

  DataParallel model(scripted(3, 2, call_linear), cpus(3));
  CHECK(model(Tensor::empty({0, 3})).shape() == Shape{0, 2});
}

TEST_CASE("data parallel, case 33: the tutorial's 100 samples in batches of 30") {
  const auto sizes = [](int devices) {
    std::vector<std::vector<int64_t>> found;
    for (const int64_t batch : {30, 10}) {
      std::vector<int64_t> chunks;
      for (const Tensor& chunk : scatter(Tensor::ones({batch, 5}), cpus(devices))) chunks.push_back(chunk.size(0));
      found.push_back(chunks);
    }
    return found;
  };
  CHECK(sizes(2) == std::vector<std::vector<int64_t>>{{15, 15}, {5, 5}});
  CHECK(sizes(3) == std::vector<std::vector<int64_t>>{{10, 10, 10}, {4, 4, 2}});
  CHECK(sizes(8) == std::vector<std::vector<int64_t>>{{4, 4, 4, 4, 4, 4, 4, 2}, {2, 2, 2, 2, 2}});
}

TEST_CASE("data parallel, case 34: scatter and its backward, any dimension, sizes given") {
  Tensor x = numbers({4, 4}).set_requires_grad();
  const auto chunks = scatter(x, cpus(2));
  REQUIRE(chunks.size() == 2);
  CHECK(chunks[1].device() == Device{DeviceType::cpu, 1});
  CHECK(floats(chunks[0]) == Floats{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(floats(chunks[1]) == Floats{9, 10, 11, 12, 13, 14, 15, 16});
  CHECK(chunks[0].shares_storage_with(x));
  chunks[0].backward(Tensor::full({2, 4}, 2));
  CHECK(floats(x.grad()) == Floats{2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0});

  const auto uneven = scatter(numbers({6, 1}), cpus(2), 0, {2, 4});
  CHECK(floats(uneven[0]) == Floats{1, 2});
  CHECK(floats(uneven[1]) == Floats{3, 4, 5, 6});

  for (const int64_t dim : {int64_t{1}, int64_t{-2}}) {
    Tensor wide = numbers({2, 3, 2}).set_requires_grad();
    const auto columns = scatter(wide, cpus(2), dim);  // (2, 2, 2) and (2, 1, 2)
    CHECK(floats(columns[0]) == Floats{1, 2, 3, 4, 7, 8, 9, 10});
    CHECK(floats(columns[1]) == Floats{5, 6, 11, 12});
    columns[1].backward(numbers({2, 1, 2}, columns[1].device()));
    CHECK(floats(wide.grad()) == Floats{0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 4});
  }

  CHECK_THROWS_WITH(scatter(numbers({6}), cpus(2), 0, {2, 3}), ContainsSubstring("sum(chunk_sizes) == 5, but expected 6"));
  CHECK_THROWS_AS(scatter(numbers({6}), cpus(2), 0, {6, 0}), ShapeError);
  CHECK_THROWS_AS(scatter(numbers({6}), cpus(2), 1), ShapeError);
}

TEST_CASE("data parallel, case 35: the C++ API's test of scatter and gather") {
  Tensor x = Tensor::ones({10}).set_requires_grad();
  const auto chunks = scatter(x, cpus(2));
  CHECK(chunks[0].numel() == 5);
  CHECK(chunks[1].numel() == 5);
  F::add(F::sum(chunks[0]), F::sum(chunks[1]).to(Device{})).backward();
  CHECK(F::sum(x.grad()).item<float>() == 10);
  CHECK(x.grad().device() == Device{});

  Tensor a = Tensor::ones({5}, DType::float32, cpus(2)[0]).set_requires_grad();
  Tensor b = Tensor::ones({5}, DType::float32, cpus(2)[1]).set_requires_grad();
  const Tensor both = gather(std::vector<Tensor>{a, b}, Device{});
  CHECK(both.numel() == 10);
  both.backward(Tensor::ones({10}));
  CHECK(F::sum(a.grad()).item<float>() == 5);
  CHECK(F::sum(b.grad()).item<float>() == 5);
  CHECK(b.grad().device() == b.device());
}

// --- gather -------------------------------------------------------------------------------------------------------

TEST_CASE("data parallel, case 36: scalars are gathered to a vector, with the warning") {
  const CaughtWarnings warnings;
  std::vector<Tensor> scalars;
  for (Device device : cpus(3)) {
    Tensor scalar = Tensor::full({}, device.index + 1, DType::float32, device).set_requires_grad();
    scalars.push_back(scalar);
  }
  const Tensor vector = gather(scalars, Device{});
  CHECK(vector.shape() == Shape{3});
  CHECK(floats(vector) == Floats{1, 2, 3});
  REQUIRE(warnings.messages().size() == 1);
  CHECK_THAT(warnings.messages()[0], ContainsSubstring("all input tensors were scalars"));
  vector.backward(Tensor::from({5, 7, 11}, {3}));
  CHECK(scalars[0].grad().item<float>() == 5);
  CHECK(scalars[1].grad().item<float>() == 7);
  CHECK(scalars[2].grad().item<float>() == 11);
  CHECK(scalars[2].grad().device() == scalars[2].device());
}

TEST_CASE("data parallel, case 37: outputs that do not fit together") {
  const auto devices = cpus(2);
  const Value::Dict one{{{"a", numbers({2})}}}, two{{{"a", numbers({2})}, {"b", numbers({2})}}}, other{{{"c", numbers({2})}}};
  CHECK_THROWS_WITH(gather(std::vector<Value>{one, two}, devices[0]), ContainsSubstring("All dicts must have the same number of keys"));
  CHECK_THROWS_WITH(gather(std::vector<Value>{one, other}, devices[0]), ContainsSubstring("has no key \"a\""));
  const auto gather_shapes = [&](const Shape& a, const Shape& b) {
    return gather(std::vector<Tensor>{numbers(a, devices[0]), numbers(b, devices[1])}, devices[0]);
  };
  CHECK_THROWS_WITH(gather_shapes({2, 3}, {2, 4}),
                    ContainsSubstring("Gather got an input of invalid size: got (2, 4), but expected (2, 3)"));
  CHECK_THROWS_AS(gather_shapes({2, 3}, {2}), ShapeError);
  CHECK_THROWS_AS(gather_shapes({2}, {}), ShapeError);
  CHECK(gather_shapes({3, 10}, {1, 10}).shape() == Shape{4, 10});
  CHECK_THROWS_WITH(gather(std::vector<Value>{Value(), numbers({2})}, devices[0]), ContainsSubstring("found None and a tensor"));
  CHECK_THROWS_WITH(gather(std::vector<Value>{Value::object(1), Value::object(2)}, devices[0]), ContainsSubstring("an object"));
}

TEST_CASE("data parallel, case 38: nested inputs and outputs keep their containers and order") {
  // The module gives back what it got, each tensor doubled.
  const auto twice = [](const auto& self, const Value& value) -> Value {
    if (const auto* tensor = value.get_if<Tensor>()) return F::scale(*tensor, 2);
    if (const auto* dict = value.get_if<Value::Dict>()) {
      Value::Dict result;
      for (const auto& [key, item] : dict->items) result.items.emplace_back(key, self(self, item));
      return result;
    }
    if (value.is_none()) return value;
    std::vector<Value> items;
    for (const Value& item : value.items()) items.push_back(self(self, item));
    if (value.get_if<Value::List>() != nullptr) return Value::List{items};
    return Value::Tuple{items};
  };
  DataParallel model(scripted(3, 2, [twice](Scripted&, const Inputs& inputs) { return twice(twice, inputs.args[0]); }), cpus(3));
  const Tensor a = numbers({5, 2}), b = numbers({5});
  const auto run = [&](Value input, Value::Dict kwargs = {}) { return model(Inputs{{std::move(input)}, std::move(kwargs)}); };
  const auto is_doubled = [](const Tensor& found, const Tensor& input) {
    check_agrees(compare(found, F::scale(input, 2), 0));
    CHECK(found.device() == Device{});
  };

  is_doubled(run(a).tensor(), a);

  const Value tuple = run(Value::Tuple{{a, b}});
  REQUIRE(tuple.get_if<Value::Tuple>() != nullptr);
  is_doubled(tuple.at(0).tensor(), a);
  is_doubled(tuple.at(1).tensor(), b);

  const Value list = run(Value::List{{b, a}});
  REQUIRE(list.get_if<Value::List>() != nullptr);
  is_doubled(list.at(0).tensor(), b);

  const Value dict = run(Value::Dict{{{"zebra", a}, {"ant", b}, {"nothing", Value()}}});
  const auto* items = dict.get_if<Value::Dict>();
  REQUIRE(items != nullptr);
  REQUIRE(items->items.size() == 3);
  CHECK(items->items[0].first == "zebra");
  CHECK(items->items[1].first == "ant");
  CHECK(dict.at("nothing").is_none());
  is_doubled(dict.at("ant").tensor(), b);

  const Value nested = run(Value::Tuple{{Value::List{{a}}, Value::Tuple{{b, Value::Dict{{{"deep", a}}}}}}});
  is_doubled(nested.at(0).at(0).tensor(), a);
  is_doubled(nested.at(1).at(1).at("deep").tensor(), a);
  CHECK(nested.at(0).get_if<Value::List>() != nullptr);

  is_doubled(run(a, {{{"unused_list", Value::List{}}, {"unused_dict", Value::Dict{}}, {"unused_tuple", Value::Tuple{}}}}).tensor(), a);
}

TEST_CASE("data parallel, case 39: arguments by name, and none at all") {
  DataParallel model(scripted(4, 2, call_linear), cpus(2));
  const Tensor x = numbers({3, 4});
  const Tensor by_place = model(x), by_name = model(Inputs{{}, {{{"input", x}}}}).tensor();
  check_agrees(compare(by_name, by_place, 0));
  CHECK(by_name.device() == Device{});

  std::atomic<int> runs = 0;
  DataParallel silent(scripted(4, 2, [&runs](Scripted& self, const Inputs&) { return ++runs, self.linear(Tensor::ones({1, 4})); }), cpus(3));
  CHECK(silent(Inputs{}).tensor().shape() == Shape{1, 2});
  CHECK(runs == 1);

  // A number is no tensor: every replica gets it, and none runs without its chunk.
  DataParallel scaled(scripted(4, 2, [](Scripted&, const Inputs& in) {
                        return F::scale(in.args[0].tensor(), in.get(1, "factor").as<double>());
                      }),
                      cpus(4));
  check_agrees(compare(scaled(Inputs{{numbers({5, 4})}, {{{"factor", Value::object(3.0)}}}}).tensor(), F::scale(numbers({5, 4}), 3), 0));
  CHECK_THROWS_WITH(scaled(Inputs{{numbers({5, 4}), numbers({8})}, {}}), ContainsSubstring("all tensors must make as many chunks"));
}

// --- parallel apply -----------------------------------------------------------------------------------------------

TEST_CASE("data parallel, case 40: parallel_apply takes tensors or arguments, the lowest failing replica is reported") {
  const auto devices = cpus(4);
  const auto module = scripted(3, 2, [](Scripted& self, const Inputs& inputs) -> Value {
    const int replica = inputs.args[0].tensor().device().index;
    if (inputs.args.size() > 1 && replica == 3) throw std::out_of_range("wonderful");
    if (inputs.args.size() > 1 && replica == 1) throw ShapeError("too wide");
    if (inputs.args.size() > 1 && replica == 0) throw 5;
    return self.linear(inputs.args[0].tensor());
  });
  std::vector<Tensor> tensors;
  std::vector<Inputs> arguments;
  for (Device device : devices) {
    tensors.push_back(numbers({2, 3}, device));
    arguments.push_back({{tensors.back()}, {}});
  }
  const Replicas replicas = replicate(*module, devices);
  const auto outputs = parallel_apply(replicas, tensors, devices);
  const auto values = parallel_apply(replicas, arguments, devices);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(outputs[i].device() == devices[i]);
    check_agrees(compare(values[i].tensor(), outputs[i], 0));
  }

  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto before = threads();
  const auto fail_in = [&](std::vector<size_t> failing) {
    std::vector<Inputs> some = arguments;
    for (const size_t i : failing) some[i].args.push_back(Value::object(0));
    parallel_apply(replicas, some, devices);
  };
  CHECK_THROWS_WITH(fail_in({3}), ContainsSubstring("Caught out_of_range in replica 3 on device cpu:3: wonderful"));
  CHECK_THROWS_AS(fail_in({1, 3}), ShapeError);
  CHECK_THROWS_WITH(fail_in({1, 3}), ContainsSubstring("Caught ShapeError in replica 1 on device cpu:1: too wide"));
  CHECK_THROWS_WITH(fail_in({0, 1}), ContainsSubstring("unknown type in replica 0"));
  CHECK(threads() == before);
  check_agrees(compare(parallel_apply(replicas, tensors, devices)[2], outputs[2], 0));
  CHECK_THROWS_WITH(parallel_apply(replicas, tensors, cpus(3)), ContainsSubstring("4 replicas, 4 inputs and 3 devices"));
}

// --- DataParallel -------------------------------------------------------------------------------------------------

TEST_CASE("data parallel, case 41: the module must be on device_ids[0], checked at forward") {
  const auto devices = cpus(2);
  const auto module_on = [](Device device) {
    auto module = scripted(3, 2, call_linear);
    module->to(device);
    return module;
  };
  const Tensor x = numbers({4, 3});
  DataParallel right(module_on(devices[1]), {devices[1], devices[0]});
  CHECK(right(x).device() == devices[1]);

  DataParallel elsewhere(module_on(devices[1]), devices);
  CHECK_THROWS_AS(elsewhere(x), DeviceError);
  CHECK_THROWS_WITH(elsewhere(x), ContainsSubstring("module must have its parameters and buffers on device cpu:0 (device_ids[0]) but found "
                                                    "one of them on device: cpu:1"));
  CHECK_THROWS_WITH(elsewhere(x), ContainsSubstring("linear.weight"));
  DataParallel reversed(module_on(devices[0]), {devices[1], devices[0]});
  CHECK_THROWS_WITH(reversed(x), ContainsSubstring("on device cpu:1 (device_ids[0]) but found one of them on device: cpu:0"));

  const auto mixed = module_on(devices[0]);
  mixed->linear.bias = mixed->linear.bias.to(devices[1]);
  DataParallel two_places(mixed, devices);
  CHECK_THROWS_WITH(two_places(x), ContainsSubstring("linear.bias"));

  DataParallel moved(module_on(devices[0]), {devices[1]});  // one device: the module is moved there
  CHECK(moved(x).device() == devices[1]);
}

TEST_CASE("data parallel, case 42: gradients of the replicas add up to the single device's") {
  manual_seed(0);
  Linear linear(10, 5);
  const Tensor x = random_tensor({20, 10}, 1, DType::float32);
  F::sum(linear(x)).backward();
  const Tensor weight = linear.weight.grad(), bias = linear.bias.grad();
  linear.zero_grad();
  DataParallel model(std::make_shared<Linear>(linear), cpus(2));
  F::sum(model(x)).backward();
  check_agrees(compare(linear.weight.grad(), weight, 1e-5));
  check_agrees(compare(linear.bias.grad(), bias, 1e-5));
}

TEST_CASE("data parallel, case 43: a parameter that nobody used gets zeros, without DataParallel it gets none") {
  const auto module = scripted(4, 1, [](Scripted& self, const Inputs& in) { return F::linear(in.args[0].tensor(), self.linear.weight); });
  F::sum(module->forward(Tensor::ones({2, 4}))).backward();
  CHECK_FALSE(module->linear.bias.grad().defined());
  module->zero_grad();
  DataParallel model(module, cpus(2));
  F::sum(model(Tensor::ones({2, 4}))).backward();
  CHECK(floats(module->linear.weight.grad()) == Floats{2, 2, 2, 2});
  CHECK(floats(module->linear.bias.grad()) == Floats{0});
}

TEST_CASE("data parallel, case 44: where the replicas' tensors are, and what they share") {
  struct WithNorm : Cloneable<WithNorm> {
    WithNorm() {
      register_module("conv", &WithNorm::conv);
      register_module("norm", &WithNorm::norm);
    }
    Tensor forward(const Tensor& x) override { return norm(conv(x)); }
    Conv2d conv{1, 2, 3};
    BatchNorm2d norm{2};
  };
  manual_seed(1);
  WithNorm network;
  network.norm.bias.set_requires_grad(false);
  const auto devices = cpus(3);
  const Replicas replicas = replicate(network, devices);
  const NamedTensors originals = network.state_dict();
  for (size_t d = 0; d < 3; ++d) {
    const NamedTensors copies = replicas[d]->state_dict();
    REQUIRE(copies.size() == originals.size());
    for (size_t i = 0; i < copies.size(); ++i) {
      INFO("replica " << d << ": " << copies[i].first);
      const auto& [name, original] = originals[i];
      CHECK(copies[i].first == name);
      CHECK(copies[i].second.device() == devices[d]);
      CHECK(copies[i].second.shares_storage_with(original) == (d == 0));
      CHECK(copies[i].second.requires_grad() == original.requires_grad());
      CHECK(copies[i].second.is_leaf() != original.requires_grad());
      CHECK(to_doubles(copies[i].second) == to_doubles(original));
    }
  }

  for (auto& replica : replicas) replica->eval();
  network.eval();
  const Tensor x = random_tensor({2, 1, 5, 5}, 2, DType::float32);
  const Tensor expected = network(x);
  check_agrees(compare(parallel_apply(replicas, {x, x.to(devices[1]), x.to(devices[2])}, devices)[2], expected, 0));

  SECTION("without gradients the copies have no history, and the replicas know") {
    std::atomic<int> enabled = 0, recorded = 0;
    DataParallel model(scripted(3, 2, [&](Scripted& self, const Inputs& in) {
                         if (grad_enabled()) ++enabled;
                         if (self.linear.weight.requires_grad()) ++recorded;
                         return self.linear(in.args[0].tensor());
                       }),
                       devices);
    {
      const NoGrad no_grad;
      CHECK_FALSE(model(numbers({6, 3})).requires_grad());
    }
    CHECK(enabled == 0);
    CHECK(recorded == 0);
    CHECK(model(numbers({6, 3})).requires_grad());
    CHECK(enabled == 3);
    CHECK(recorded == 3);
  }
  SECTION("tied weights stay tied") {
    struct Tied : Cloneable<Tied> {
      Tied() {
        second.weight = first.weight;
        register_module("first", &Tied::first);
        register_module("second", &Tied::second);
      }
      Tensor forward(const Tensor& x) override { return second(first(x)); }
      Linear first{3, 3}, second{3, 3};
    };
    Tied tied;
    const Replicas copies = replicate(tied, devices);
    CHECK(copies[1]->parameters().size() == 3);
    CHECK(static_cast<Tied&>(*copies[1]).first.weight.is_same(static_cast<Tied&>(*copies[1]).second.weight));
    const Tensor input = random_tensor({7, 3}, 4, DType::float32);
    F::sum(tied(input)).backward();
    const Tensor single = tied.first.weight.grad();
    tied.zero_grad();
    DataParallel model(std::make_shared<Tied>(tied), devices);
    F::sum(model(input)).backward();
    check_agrees(compare(tied.first.weight.grad(), single, 1e-5));
  }
}

TEST_CASE("data parallel, case 45: what replicas write is lost, but for replica 0's buffers") {
  struct Counting : Cloneable<Counting> {
    Counting() {
      register_module("linear", &Counting::linear);
      register_buffer("seen", &Counting::seen);
    }
    Tensor forward(const Tensor& x) override {
      ++calls;
      seen.add_(Tensor::full({1}, static_cast<double>(x.size(0)), DType::float32, x.device()));
      return linear(x);
    }
    Linear linear{2, 2};
    Tensor seen = Tensor::zeros({1});
    int calls = 0;
  };
  const auto module = std::make_shared<Counting>();
  DataParallel model(module, cpus(4));
  for (int step = 0; step < 3; ++step) model(numbers({10, 2}));
  CHECK(module->calls == 0);
  CHECK(module->seen.item<float>() == 9);  // three times the 3 samples of replica 0
}

TEST_CASE("data parallel, case 46: BatchNorm normalises each chunk, running statistics are replica 0's") {
  const Tensor batch = Tensor::from({0, 2, 10, 12}, {4, 1, 1, 1});
  const auto parallel = std::make_shared<BatchNorm2d>(1), single = std::make_shared<BatchNorm2d>(1);
  DataParallel model(parallel, cpus(2));
  check_agrees(compare(to_doubles(model(batch)), std::vector<double>{-1, 1, -1, 1}, 6e-6));
  CHECK(parallel->running_mean.item<double>() == Approx(.1));
  CHECK(parallel->running_var.item<double>() == Approx(1.1));
  CHECK(parallel->num_batches_tracked.item<int64_t>() == 1);
  check_agrees(compare(to_doubles((*single)(batch)), std::vector<double>{-1.1766967, -.7844645, .7844644, 1.1766965}, 1e-6));
  CHECK(single->running_mean.item<double>() == Approx(.6));
  CHECK(single->running_var.item<double>() == Approx(4.3666668));
}

TEST_CASE("data parallel, case 47: a loss inside forward comes back as a vector, whose mean is not the batch's") {
  const CaughtWarnings warnings;
  const auto module = scripted(1, 1, [](Scripted&, const Inputs& in) { return F::mean(in.args[0].tensor()); });
  DataParallel model(module, cpus(2));
  const Tensor losses = model(numbers({5, 1}));
  CHECK(floats(losses) == Floats{2, 4.5});
  CHECK(F::mean(losses).item<float>() == 3.25f);
  CHECK(F::sum(F::mul(losses, Tensor::from({3.f / 5, 2.f / 5}, {2}))).item<float>() == Approx(3.0));
  CHECK(warnings.messages().size() == 1);
}

TEST_CASE("data parallel, case 48: the size of the buffers changes no value") {
  const auto devices = cpus(3);
  std::vector<Tensor> tensors;
  for (const Shape& shape : {Shape{3, 4}, Shape{7}, Shape{}, Shape{2, 5}, Shape{0}}) {
    tensors.push_back(random_tensor(shape, static_cast<unsigned>(tensors.size() + 1), DType::float32).set_requires_grad());
  }
  tensors.push_back(random_tensor({6}, 9).set_requires_grad());  // float64 between float32 ones
  tensors.push_back(random_tensor({4}, 10, DType::float32).set_requires_grad());
  std::vector<std::vector<Tensor>> gradients(3);
  for (size_t d = 0; d < 3; ++d) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      // Numbers so unlike that another order of addition would show.
      gradients[d].push_back(random_tensor(tensors[t].shape(), static_cast<unsigned>(100 * d + t), tensors[t].dtype()).to(devices[d]));
      gradients[d].back().mul_(d == 1 ? 1e8 : 1);
    }
  }
  gradients[2][1] = Tensor();  // counts as zeros
  const auto expected = reduce_add_coalesced(gradients, tensors, devices[0], devices, 1);
  CHECK(expected[0].to_vector<float>()[5] ==
        (gradients[0][0].to_vector<float>()[5] + gradients[1][0].to_vector<float>()[5]) + gradients[2][0].to_vector<float>()[5]);
  for (const size_t bytes : {size_t{1}, size_t{30}, size_t{100}, coalescing_bytes}) {
    const auto copies = broadcast_coalesced(tensors, devices, bytes);
    const auto sums = reduce_add_coalesced(gradients, tensors, devices[0], devices, bytes);
    for (size_t t = 0; t < tensors.size(); ++t) {
      INFO("buffers of " << bytes << " bytes, tensor " << t);
      CHECK(to_doubles(copies[2][t]) == to_doubles(tensors[t]));
      CHECK(copies[2][t].shape() == tensors[t].shape());
      CHECK(to_doubles(sums[t]) == to_doubles(expected[t]));
    }
  }
}

TEST_CASE("data parallel, case 49: one device needs no copy, more devices than samples idle") {
  const auto module = scripted(3, 2, call_linear);
  const Tensor x = numbers({3, 3});
  const Tensor expected = module->forward(x);
  SECTION("one device") {
    DataParallel model(module, {Device{}}, cpus(2)[1]);
    recorder().start();
    const Tensor output = model(x);
    const Profile profile = recorder().take();
    CHECK(output.device() == Device{});  // as PyTorch: output_device is not used
    check_agrees(compare(output, expected, 0));
    for (const PhaseTotal& each : profile.phases) CHECK((each.phase == "scatter" || each.phase == "forward"));
    CHECK(profile.transfers.empty());
  }
  SECTION("eight devices, three samples") {
    std::atomic<int> runs = 0;
    module->register_forward_hook([&runs](Module&, const Inputs&, const Value&) { ++runs; });
    DataParallel model(module, cpus(8), cpus(8)[7]);
    const Tensor output = model(x);
    CHECK(runs == 3);
    CHECK(output.device() == cpus(8)[7]);
    check_agrees(compare(output, expected, 1e-6));
  }
}
