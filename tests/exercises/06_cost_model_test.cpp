// Tests of the exercises of chapter 06: times worked out by hand.
#include "chapters/06_dp_vs_ddp/cost_model.h"
#include "tests/exercises/expect.h"

using namespace miniddp;
using namespace miniddp::testing;

TEST_CASE("06.1 a step of DDP with overlap", "[06.1]") {
  // 2 devices: a bucket of b bytes is 2 messages of b / 2: 2 ms + b ms. Backward of 10 samples: 30 ms.
  const Link link{"by hand", 1e-3, 1000};
  Workload work;
  work.seconds_per_sample = 4.5e-3;
  work.seconds_per_step = 5e-3;
  const auto expect_times = [&](const std::string& what, bool overlap, int cores, double compute, double exposed, double hidden) {
    const StepTime found = ddp_step(work, link, AllReduce::ring, overlap, 2, 10, cores);
    const auto expect_ms = [&](const char* part, double seconds, double expected) {
      expect(std::abs(1e3 * seconds - expected) < 1e-6, fmt::format("{}, {}: expected {} ms, found {} ms", what, part, expected, 1e3 * seconds));
    };
    expect_ms("compute", found.compute, compute);
    expect_ms("exposed", found.exposed, exposed);
    expect_ms("hidden", found.hidden, hidden);
  };
  work.buckets = {{18, 1.0 / 3}, {8, 1}};  // 20 ms from 10 ms on, 10 ms from 30 ms on
  expect_times("buckets of 20 and 10 ms, complete at 10 and 30 of 30 ms", true, 0, 50, 10, 20);
  expect_times("the same without overlap", false, 0, 50, 30, 0);
  expect_times("the same on 2 cores, none spare", true, 2, 50, 30, 0);
  expect_times("the same on 4 cores", true, 4, 50, 10, 20);
  expect_times("the same without overlap, both on one core", false, 1, 100, 30, 0);
  work.buckets = {{38, 1.0 / 3}, {8, 0.5}};  // the second has to wait for the first
  expect_times("buckets of 40 and 10 ms, complete at 10 and 15 of 30 ms", true, 0, 50, 30, 20);
  work.buckets = {{3, 1.0 / 3}, {3, 0.5}};
  expect_times("two buckets of 5 ms, complete at 10 and 15 of 30 ms", true, 0, 50, 0, 10);
  work.reduces_loss = true;  // 2 ms + 4 ms
  expect_times("the same, and the loss is reduced", true, 0, 50, 6, 10);
}
