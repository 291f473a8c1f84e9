// Tests of the exercises of chapter 05.
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"
#include "tests/exercises/expect.h"

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
