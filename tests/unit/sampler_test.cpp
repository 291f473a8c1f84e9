#include "common/data/sampler.h"

#include <algorithm>

#include "common/core/error.h"
#include "tests/support/catch.h"

using namespace miniddp;

namespace {

using Indices = std::vector<int64_t>;

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

}  // namespace

TEST_CASE("SequentialSampler counts and draws nothing") {
  const SequentialSampler sampler(7);
  Generator source(3);
  const Generator stream = sampler.begin_pass(source);
  CHECK(sampler.order(0, stream) == Indices{0, 1, 2, 3, 4, 5, 6});
  CHECK(sampler.order(5, stream) == sampler.order(0, stream));
  CHECK(source.draws() == 0);
}

TEST_CASE("RandomSampler draws its seed from the source, two draws a pass") {
  const RandomSampler sampler(13);
  Generator source(3);
  const Generator first = sampler.begin_pass(source);
  CHECK(source.draws() == 2);
  const Generator second = sampler.begin_pass(source);
  CHECK(source.draws() == 4);
  CHECK(sampler.order(0, first) != sampler.order(0, second));
  // The same stream gives the same order: a pass can be resumed.
  CHECK(sampler.order(0, first) == sampler.order(9, first));
  CHECK(sorted(sampler.order(0, first)) == distributed_order(13, 0, 0, false));
}

TEST_CASE("RandomSampler with its own generator leaves the source alone") {
  Generator own(7);
  const RandomSampler sampler(13, &own);
  Generator source(3);
  const Generator stream = sampler.begin_pass(source);
  CHECK(source.draws() == 0);
  CHECK(own.draws() == 12);
  CHECK(sampler.order(0, stream) == Generator(7).randperm(13));
  sampler.end_pass();
  CHECK(own.draws() == 24);
}

TEST_CASE("WorldOneSampler: seed and epoch choose the order") {
  const WorldOneSampler sampler(11, 0);
  const Generator unused(0);
  // PyTorch's, from DistributedSampler(num_replicas=1).
  CHECK(sampler.order(0, unused) == Indices{10, 0, 4, 3, 5, 8, 2, 1, 9, 7, 6});
  CHECK(sampler.order(1, unused) == Indices{0, 10, 2, 3, 7, 6, 4, 8, 1, 9, 5});
  CHECK(distributed_order(11, 5, 0) == distributed_order(11, 3, 2));
  CHECK(distributed_order(4, 0, 0, false) == Indices{0, 1, 2, 3});
  CHECK(distributed_order(60000, 0, 1)[0] == 35845);
}

TEST_CASE("Samplers of nothing, and of less than nothing") {
  Generator source(3);
  CHECK(RandomSampler(0).order(0, RandomSampler(0).begin_pass(source)).empty());
  CHECK(SequentialSampler(0).order(0, source).empty());
  CHECK(distributed_order(0, 0, 0).empty());
  CHECK_THROWS_AS(RandomSampler(-1), Error);
  CHECK_THROWS_AS(SequentialSampler(-1), Error);
  CHECK_THROWS_AS(WorldOneSampler(-1), Error);
}
