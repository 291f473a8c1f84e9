// Tests of the exercises of chapter 05.
#include <fmt/ranges.h>

#include "chapters/05_distributed_data_parallel/buckets.h"
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"
#include "chapters/05_distributed_data_parallel/simple_reducers.h"
#include "tests/exercises/expect.h"
#include "tests/exercises/two_ranks.h"

using namespace miniddp;
using namespace miniddp::testing;

TEST_CASE("05.1 indices of the DistributedSampler", "[05.1]") {
  using Indices = std::vector<int64_t>;
  const auto indices = [](int64_t n, int world, int rank, DistributedSamplerOptions options, int64_t epoch = 0) {
    return DistributedSampler(n, world, rank, options).order(epoch);
  };
  expect_equal("rank 1 of 4, 11 samples in order", indices(11, 4, 1, {.shuffle = false}), Indices{1, 5, 9});
  expect_equal("rank 3 of 4, 11 samples in order", indices(11, 4, 3, {.shuffle = false}), Indices{3, 7, 0});
  expect_equal("rank 3 of 4, 11 samples in order, drop_last", indices(11, 4, 3, {.shuffle = false, .drop_last = true}), Indices{3, 7});
  expect_equal("rank 4 of 5, 2 samples in order", indices(2, 5, 4, {.shuffle = false}), Indices{0});
  for (const int64_t epoch : {0, 1, 5}) {
    const Indices all = distributed_order(13, 3, epoch, true);
    for (int rank = 0; rank < 3; ++rank) {
      Indices expected;
      for (size_t i = 0; i < 5; ++i) expected.push_back(all[(static_cast<size_t>(rank) + 3 * i) % 13]);
      expect_equal(fmt::format("rank {} of 3, 13 samples shuffled with seed 3, epoch {}", rank, epoch),
                   indices(13, 3, rank, {.seed = 3}, epoch), expected);
    }
  }
}

TEST_CASE("05.2 gradients averaged after backward", "[05.2]") {
  const auto texts = on_ranks(3, [](int rank) {
    std::vector<Tensor> parameters;
    for (const double value : {3.0 * rank, 0.0, 6.0 - rank}) {
      Tensor parameter = Tensor::zeros({2});
      if (parameters.size() != 1) parameter.set_grad(Tensor::full({2}, value));
      parameters.push_back(parameter);
    }
    average_gradients(default_process_group(), parameters);
    return fmt::format("{:.6g} {} {:.6g}", parameters[0].grad().to_vector<float>()[1], parameters[1].grad().defined() ? "a gradient" : "none",
                       parameters[2].grad().to_vector<float>()[1]);
  });
  for (size_t rank = 0; rank < texts.size(); ++rank)
    expect_equal(fmt::format("gradients on rank {} of 3 after averaging 0 3 6, none, and 6 5 4", rank), texts[rank], std::string("3 none 5"));
}

TEST_CASE("05.3 which gradients travel together", "[05.3]") {
  const auto floats = [](int64_t count) { return Tensor::zeros({count}); };
  const auto expect_buckets = [](const std::string& what, const std::vector<Tensor>& tensors, const std::vector<size_t>& limits,
                                 const std::vector<size_t>& order, const std::string& expected) {
    expect_equal("buckets of " + what, fmt::format("{}", compute_bucket_assignment_by_size(tensors, limits, order)), expected);
  };
  const std::vector<Tensor> five(5, floats(1));
  expect_buckets("five tensors of 4 bytes, limits 4 and 8", five, {4, 8}, {}, "[[0], [1, 2], [3, 4]]");
  expect_buckets("five tensors of 4 bytes, limit 12", five, {12}, {}, "[[0, 1, 2], [3, 4]]");
  expect_buckets("five tensors of 4 bytes, limits 4 and 16", five, {4, 16}, {}, "[[0], [1, 2, 3, 4]]");
  expect_buckets("four tensors of 4 bytes, limits 4 and 8", {five.begin(), five.begin() + 4}, {4, 8}, {}, "[[0], [1, 2], [3]]");
  expect_buckets("tensors of 400, 4 and 4 bytes, limits 4 and 8", {floats(100), floats(1), floats(1)}, {4, 8}, {}, "[[0], [1, 2]]");
  expect_buckets("five tensors of 4 bytes in the order 4 3 1 2 0, limits 4 and 8", five, {4, 8}, {4, 3, 1, 2, 0}, "[[4], [3, 1], [2, 0]]");
  const Tensor wide = Tensor::zeros({1}, DType::float64);
  expect_buckets("float32, float64, float32, float64 of one element, limit 16", {floats(1), wide, floats(1), wide}, {16}, {}, "[[0, 2], [1, 3]]");
}

// One process is the reference for the whole Reducer; each of the three tasks has cases of its own besides.
TEST_CASE("05.4 a gradient goes into its bucket", "[05.4]") {
  expect_one_process("two ranks, buckets", {});
  // Rank 1 uses `second` in the first step only. Both gradients are 1 + rank.
  const auto texts = on_ranks(2, [](int rank) {
    const auto network = std::make_shared<OneOrTwo>();
    DistributedDataParallel model(network, {.reducer = {.find_unused_parameters = true}});
    std::string text;
    for (const bool first_step : {true, false}) {
      network->use_second = first_step || rank == 0;
      SGD(network->parameters(), {.lr = 1}).zero_grad();
      functional::sum(model(Tensor::full({1, 1}, rank + 1))).backward();
      text += fmt::format("{} {}; ", network->first.weight.grad().item<double>(), network->second.weight.grad().item<double>());
    }
    return text;
  });
  for (size_t rank = 0; rank < 2; ++rank)
    expect_equal(fmt::format("rank {}: gradients 1 and 2 of two weights, averaged in two steps; rank 1 does not use the second weight in the second", rank),
                 texts[rank], std::string("1.5 1.5; 1.5 0.5; "));
  const auto hooked = on_ranks(2, [](int rank) {
    const auto network = std::make_shared<Linear>(1, 1);
    DistributedDataParallel model(network, {.reducer = {.gradient_as_bucket_view = true}});
    std::string seen;
    model.register_comm_hook([&](ProcessGroup&, Tensor flat) -> PendingBucket {
      seen = fmt::format("{} ", flat.to_vector<float>().back());
      return [flat] { return flat; };
    });
    functional::sum(model(Tensor::full({1, 1}, 3 + rank))).backward();
    const bool view = network->weight.grad().shares_storage_with(model.reducer().buckets()[0].flat);
    return seen + (view ? "a view" : "no view");
  });
  expect_equal("what a hook on rank 0 sees of the bias's gradient, 1, and whether the weight's gradient is a view of the bucket", hooked[0], std::string("1 a view"));
}

TEST_CASE("05.5 a gradient is complete", "[05.5]") {
  expect_one_process("two ranks, buckets", {});
  expect_own_gradients_until_the_last_pass("two ranks, buckets", {});
  const auto texts = on_ranks(2, [](int) {
    const auto network = std::make_shared<Small>();
    DistributedDataParallel model(network);
    functional::sum(model(Tensor::ones({2, 6}))).backward();
    std::vector<size_t> order = model.reducer().ready_order();
    return fmt::format("{} {}", order.size(), order.empty() || order.back() > 1 ? "not fc1" : "fc1");
  });
  expect_equal("how many gradients are noted in ready_order, and whose is the last", texts[0], std::string("4 fc1"));
}

TEST_CASE("05.6 the run that leaves buckets behind", "[05.6]") {
  expect_one_process("two ranks, one bucket", {});
  // Wide layers: from the second step on every parameter has a bucket of its own.
  for (const bool overlap : {true, false}) {
    const auto sums = on_ranks(2, [overlap](int rank) {
      const auto network = std::make_shared<OneOrTwo>(1 << 18);
      DistributedDataParallel model(network, {.reducer = {.bucket_cap_bytes = 1, .overlap = overlap}});
      std::string text;
      for (int step = 1; step <= 2; ++step) {
        for (Tensor parameter : network->parameters()) parameter.set_grad(Tensor());
        functional::sum(model(Tensor::full({1, 1}, (rank + 1) * step))).backward();
        for (const Tensor& parameter : network->parameters()) text += fmt::format("{} ", parameter.grad().to_vector<float>().back());
        text += fmt::format("in {} bucket{}; ", model.reducer().buckets().size(), model.reducer().buckets().size() > 1 ? "s" : "");
      }
      return text;
    });
    for (size_t rank = 0; rank < 2; ++rank)
      expect_equal(fmt::format("rank {}{}: gradients of two weights and biases, averaged in two steps", rank, overlap ? "" : ", without overlap"),
                   sums[rank], std::string("1.5 1 1.5 1 in 1 bucket; 3 1 3 1 in 4 buckets; "));
  }
  // A hook sees a bucket when it is started, so what it sees does not depend on who is faster.
  for (const bool overlap : {true, false}) {
    const auto texts = on_ranks(2, [overlap](int) {
      const auto network = std::make_shared<OneOrTwo>(1 << 18);
      DistributedDataParallel model(network, {.reducer = {.bucket_cap_bytes = 1, .overlap = overlap}});
      std::string text;
      model.register_comm_hook([&](ProcessGroup&, Tensor flat) -> PendingBucket {
        text += fmt::format("{} ", flat.to_vector<float>().back());
        return [flat] { return Tensor::full(flat.shape(), 7); };
      });
      for (int step = 1; step <= 3; ++step) {
        for (Tensor parameter : network->parameters()) parameter.set_grad(Tensor());
        functional::sum(model(Tensor::full({1, 1}, step))).backward();
        text += fmt::format("gives {}; ", network->first.weight.grad().to_vector<float>().back());
      }
      return text;
    });
    expect_equal(fmt::format("rank 0{}: the last gradient of each bucket that a communication hook sees, and what is left where it returns 7, in three steps",
                             overlap ? "" : ", without overlap"),
                 texts[0], std::string("1 gives 7; 1 2 1 2 gives 7; 1 3 1 3 gives 7; "));
  }
}
