// Runs of the exercises of chapter 05 that have a mistake in them: two ranks beside one process, tensor by tensor after every step.
#include <fmt/ranges.h>

#include <algorithm>

#include "chapters/05_distributed_data_parallel/distributed_sampler.h"
#include "chapters/05_distributed_data_parallel/verify_model.h"
#include "common/data/sampler.h"
#include "tests/exercises/two_ranks.h"

using namespace miniddp;
using namespace miniddp::testing;

TEST_CASE("05.7 the run whose ranks drift apart", "[05.7]") {
  expect_one_process("two ranks, per-gradient", {.kind = ReducerKind::per_gradient});
  expect_own_gradients_until_the_last_pass("two ranks, per-gradient", {.kind = ReducerKind::per_gradient});
}

TEST_CASE("05.8 the run that learns alone", "[05.8]") {
  expect_one_process("two ranks, after-backward", {.kind = ReducerKind::after_backward});
  expect_own_gradients_until_the_last_pass("two ranks, after-backward", {.kind = ReducerKind::after_backward});
}

TEST_CASE("05.9 the run whose ranks begin apart", "[05.9]") {
  const auto texts = on_ranks(2, [](int rank) {
    const std::vector<Tensor> tensors{Tensor::full({3}, rank + 1.5), Tensor::full({2}, rank + 5, DType::int64), Tensor::full({1}, rank + 2.5)};
    std::string text;
    for (const int root : {1, 0}) {
      broadcast_coalesced(default_process_group(), tensors, root);
      for (const Tensor& tensor : tensors) text += fmt::format("{} ", tensor.to(DType::float64).to_vector<double>()[0]);
      if (rank == 0) Tensor(tensors[0]).fill_(9);  // other values for the second round
    }
    return text;
  });
  for (size_t rank = 0; rank < 2; ++rank)
    expect_equal(fmt::format("rank {}: three tensors (float32, int64, float32) after a broadcast from rank 1, then one from rank 0 whose first is 9", rank),
                 texts[rank], std::string("2.5 6 3.5 9 6 3.5 "));
}

TEST_CASE("05.10 the run that is too fast", "[05.10]") {
  const auto texts = on_ranks(3, [](int rank) {
    const Tensor bucket = Tensor::from({static_cast<float>(rank + 1), static_cast<float>(10 * rank)}, {2});
    const Tensor mean = allreduce_hook(default_process_group(), bucket)();
    return fmt::format("{:.5g}", fmt::join(mean.to_vector<float>(), " "));
  });
  for (size_t rank = 0; rank < 3; ++rank)
    expect_equal(fmt::format("rank {} of 3: what the hook makes of the buckets 1 0, 2 10 and 3 20", rank), texts[rank], std::string("2 10"));
}

TEST_CASE("05.11 the run that sees the same order again", "[05.11]") {
  const auto expect_order = [](int64_t seed, int64_t epoch, const std::vector<int64_t>& expected) {
    expect_equal(fmt::format("order of 7 samples, seed {}, epoch {}", seed, epoch), distributed_order(7, seed, epoch), expected);
  };
  for (const int64_t seed : {0, 5}) {
    for (int64_t epoch = 0; epoch < 4; ++epoch) expect_order(seed, epoch, Generator(static_cast<uint64_t>(seed + epoch)).randperm(7));
  }
  expect_equal("order of 4 samples that are not shuffled, epoch 3", distributed_order(4, 1, 3, false), std::vector<int64_t>{0, 1, 2, 3});
}

TEST_CASE("05.12 the run that never sees some samples", "[05.12]") {
  // Three ranks' indices, rank after rank.
  const auto dealt = [](int64_t samples, Split split, int64_t epoch, bool shuffle) {
    std::vector<int64_t> all;
    for (int rank = 0; rank < 3; ++rank) {
      const std::vector<int64_t> mine = sampler_of_rank(samples, 3, rank, split, shuffle)->order(epoch, Generator(0));
      all.insert(all.end(), mine.begin(), mine.end());
    }
    return all;
  };
  for (const int64_t epoch : {0, 1}) {
    const std::string what = fmt::format("12 training samples on 3 ranks, epoch {}", epoch);
    std::vector<int64_t> sorted = dealt(12, Split::train, epoch, true);
    std::sort(sorted.begin(), sorted.end());
    expect_equal(what + ": what the ranks see together, sorted", sorted, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    const std::vector<int64_t> order = Generator(static_cast<uint64_t>(epoch)).randperm(12);
    std::vector<int64_t> expected;
    for (size_t rank = 0; rank < 3; ++rank)
      for (size_t i = rank; i < 12; i += 3) expected.push_back(order[i]);
    expect_equal(what + ": what ranks 0, 1 and 2 see, in their order", dealt(12, Split::train, epoch, true), expected);
  }
  expect_equal("6 training samples on 3 ranks that are not shuffled", dealt(6, Split::train, 1, false), {0, 3, 1, 4, 2, 5});
  expect_equal("7 test samples on 3 ranks, each once", dealt(7, Split::test, 0, true), {0, 3, 6, 1, 4, 2, 5});
}
