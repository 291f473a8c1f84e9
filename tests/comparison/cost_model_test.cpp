// Chapter 06's model against values worked out by hand.
#include "chapters/06_dp_vs_ddp/cost_model.h"

#include "chapters/06_dp_vs_ddp/calibrate.h"
#include "chapters/06_dp_vs_ddp/simulate.h"
#include "common/core/file.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;

namespace {

// A message of n bytes: 2 s + n / 10 s.
const Link slow{"by hand", 2, 10};

// 4 s of forward and 8 s of backward a sample, 3 s a step; 100 bytes after a quarter of backward, 20 at its end.
Workload by_hand() {
  Workload work;
  work.seconds_per_sample = 12;
  work.seconds_per_step = 3;
  work.buckets = {{100, 0.25}, {20, 1}};
  work.sample_bytes = 30;
  work.output_bytes = 5;
  return work;
}

}  // namespace

TEST_CASE("model: collectives cost what their messages cost") {
  CHECK(slow.message(50) == 7);
  CHECK(tree_broadcast(slow, 50, 1) == 0);
  CHECK(tree_broadcast(slow, 50, 2) == 7);
  CHECK(tree_broadcast(slow, 50, 5) == 21);  // 1, 2, 4, 8: three rounds
  CHECK(tree_reduce(slow, 50, 8) == 21);
  CHECK(star(slow, 50, 4) == 21);  // three others
  CHECK(all_reduce(AllReduce::ring, slow, 60, 1) == 0);
  CHECK(all_reduce(AllReduce::ring, slow, 60, 3) == Approx(4 * (2 + 20 / 10.0)));
  CHECK(all_reduce(AllReduce::tree, slow, 60, 3) == Approx(2 * 2 * 2 + 2 * 60 / 10.0));
  // The ring's latency grows with the devices, the tree's with their logarithm; the ring never moves twice the bytes.
  CHECK(all_reduce(AllReduce::ring, slow, 60, 2) < all_reduce(AllReduce::tree, slow, 60, 2));
  CHECK(all_reduce(AllReduce::ring, slow, 60, 1024) > all_reduce(AllReduce::tree, slow, 60, 1024));
}

TEST_CASE("model: a step of DDP on two devices") {
  // Ring of two: 2 (2 + n / 20): 14 s for the first bucket, 6 s for the second. Two samples: 8 s forward, 16 s backward, 3 s a step.
  const StepTime after = ddp_step(by_hand(), slow, AllReduce::ring, false, 2, 2);
  CHECK(after.compute == Approx(27));
  CHECK(after.exposed == Approx(20));
  CHECK(after.hidden == Approx(0).margin(1e-12));
  // Beside backward: the first goes from 4 to 18, the second, complete at 16, from 18 to 24; backward ends at 16.
  const StepTime beside = ddp_step(by_hand(), slow, AllReduce::ring, true, 2, 2);
  CHECK(beside.compute == Approx(27));
  CHECK(beside.exposed == Approx(8));
  CHECK(beside.hidden == Approx(12));
  CHECK(beside.total() == Approx(35));
  // The mean of the losses is one all-reduce more, of 4 bytes: 2 (2 + 4 / 20).
  Workload with_loss = by_hand();
  with_loss.reduces_loss = true;
  CHECK(ddp_step(with_loss, slow, AllReduce::ring, true, 2, 2).exposed == Approx(8 + 4.4));
  // One device sends nothing.
  CHECK(ddp_step(with_loss, slow, AllReduce::ring, true, 1, 2).total() == Approx(27));
}

TEST_CASE("model: a step of DataParallel on three devices") {
  // Two samples each. Scatter 2 (2 + 60/10) = 16, replicate 2 (2 + 120/10) = 28, gather and its backward 2 * 2 (2 + 10/10) = 12, reduce 28.
  const StepTime time = dp_step(by_hand(), slow, 3, 2);
  CHECK(time.compute == Approx(27));
  CHECK(time.exposed == Approx(84));
  CHECK(dp_step(by_hand(), slow, 1, 2).exposed == 0);
}

TEST_CASE("model: devices that share cores compute more slowly, and nothing overlaps where no core is spare") {
  CHECK(ddp_step(by_hand(), slow, AllReduce::ring, true, 4, 2, 8).compute == Approx(27));
  CHECK(ddp_step(by_hand(), slow, AllReduce::ring, true, 4, 2, 8).hidden > 0);
  const StepTime shared = ddp_step(by_hand(), slow, AllReduce::ring, true, 4, 2, 2);
  CHECK(shared.compute == Approx(54));
  CHECK(shared.hidden == Approx(0).margin(1e-12));
  CHECK(shared.exposed == Approx(all_reduce(AllReduce::ring, slow, 100, 4) + all_reduce(AllReduce::ring, slow, 20, 4)));
  CHECK(ddp_step(by_hand(), slow, AllReduce::ring, true, 2, 2, 2).hidden == Approx(0).margin(1e-12));
  CHECK(dp_step(by_hand(), slow, 4, 2, 2).compute == Approx(48 + 3));
}

TEST_CASE("model: a line through measured times") {
  const Line line = fit_line({1, 2, 4}, {5, 7, 11});
  CHECK(line.per_step == Approx(3));
  CHECK(line.per_sample == Approx(2));
  const Line best = fit_line({0, 1, 2}, {0, 3, 3});  // no line goes through all three
  CHECK(best.per_step == Approx(0.5));
  CHECK(best.per_sample == Approx(1.5));
  CHECK_THROWS_AS(fit_line({3, 3}, {1, 2}), Error);
  CHECK_THROWS_AS(fit_line({}, {}), Error);
  CHECK_THROWS_AS(fit_line({1, 2}, {1}), Error);
}

TEST_CASE("model: article B's buckets are chapter 05's, the fully connected ones are early") {
  const std::vector<Workload::Bucket> buckets = buckets_of("article_b");
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].bytes == 4'724'264);
  CHECK(buckets[1].bytes == 75'264);
  // Multiplications a sample, twice but for conv1: conv1 194 688, conv2 10 616 832, fc1 1 179 648, fc2 1 280, and the biases.
  CHECK(buckets[0].ready == Approx(2 * 1'180'928.0 / (194'688 + 2 * 11'797'760.0)).epsilon(0.01));
  CHECK(buckets[1].ready == Approx(1));
  REQUIRE(buckets_of("article_a").size() == 1);
  CHECK(buckets_of("article_a")[0].bytes == 4 * (250 + 10 + 14400 + 10));
}

TEST_CASE("model: scaling from 1 to 1024 devices") {
  const std::vector<ScalingRow> rows = scaling(by_hand(), slow, 2);
  REQUIRE(rows.size() == 11);
  CHECK(rows.front().devices == 1);
  CHECK(rows.back().devices == 1024);
  CHECK(rows[0].dp == Approx(27));
  CHECK(rows[0].ddp_tree == Approx(27));
  CHECK(rows[1].ddp_ring == Approx(35));
  CHECK(rows[1].ddp_after == Approx(47));
  for (size_t i = 1; i < rows.size(); ++i) {
    CHECK(rows[i].dp >= rows[i - 1].dp);
    CHECK(rows[i].ddp_ring <= rows[i].ddp_after);
  }
}

TEST_CASE("model: a link is known by its name or read from a file") {
  CHECK(find_link("nvlink").link.bandwidth == 370e9);
  CHECK(find_link("pcie").link.latency == 6e-6);
  CHECK(find_link("100gbe").link.bandwidth == 11e9);
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "link.json";
  write_file(file, R"({"name": "mine", "latency_us": 5, "gigabytes_per_second": 2, "sample_us": 1.5})");
  const LinkFile found = find_link(file);
  CHECK(found.link.name == "mine");
  CHECK(found.link.latency == Approx(5e-6));
  CHECK(found.link.bandwidth == Approx(2e9));
  CHECK(found.sample_us == 1.5);
  CHECK_FALSE(found.step_us);
  for (const char* text : {"", "[]", "{", R"({"latency_us": 5})", R"({"latency_us": -1, "gigabytes_per_second": 2})",
                           R"({"latency_us": 1, "gigabytes_per_second": 0})", R"({"latency_us": "1", "gigabytes_per_second": 2})",
                           R"({"latency_us": 1, "gigabytes_per_second": 2, "sample_us": 0})", R"({"latency_us": 1, "gigabytes_per_second": 2, "name": 3})"}) {
    INFO(text);
    write_file(file, text);
    CHECK_THROWS_AS(find_link(file), DataError);
  }
  CHECK_THROWS_AS(find_link(directory.path() / "nothing"), DataError);
}

TEST_CASE("model: published figures are where the model says") {
  for (const PublishedCheck& each : published_checks()) {
    INFO(each.what << ": " << each.published << ", the model " << each.lowest << " to " << each.highest);
    CHECK(each.lowest <= each.highest);
    CHECK(each.published >= 0.98 * each.lowest);
    CHECK(each.published <= 1.02 * each.highest);
    CHECK(each.highest - each.lowest <= 0.15 * each.published);  // a range that says everything would say nothing
  }
}
