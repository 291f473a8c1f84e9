// Tests of the exercises of chapter 02.
#include "chapters/02_manual_parallel/scatter.h"
#include "tests/exercises/expect.h"

using namespace miniddp;
using namespace miniddp::testing;

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
