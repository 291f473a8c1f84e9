// Recorder, profile and trace.
#include "common/training/profile.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "common/nn/layers.h"
#include "common/optim/sgd.h"
#include "tests/support/catch.h"

using namespace miniddp;
using Catch::Matchers::ContainsSubstring;

namespace {

const Device cpu0{}, cpu1{DeviceType::cpu, 1};

void spin(int milliseconds) {
  const int64_t end = steady_nanoseconds() + int64_t{milliseconds} * 1'000'000;
  while (steady_nanoseconds() < end) {
  }
}

const PhaseTotal& phase(const Profile& profile, const std::string& name, const std::string& row) {
  for (const PhaseTotal& each : profile.phases) {
    if (each.phase == name && each.row == row) return each;
  }
  throw Error("the profile has no phase {} on {}", name, row);
}

}  // namespace

TEST_CASE("profile: nothing is recorded while it is off") {
  recorder().start();
  recorder().take();
  CHECK_FALSE(recording());
  { const Span span("forward", cpu0); }
  count_transfer("scatter", "input", cpu0, cpu1, 10);
  recorder().step_done();
  const Profile profile = recorder().take();
  CHECK(profile.phases.empty());
  CHECK(profile.transfers.empty());
  CHECK(profile.steps == 0);
}

TEST_CASE("profile: time inside a span belongs to the inner one, waiting to nobody") {
  recorder().start(true);
  {
    const Span outer("outer", cpu0);
    spin(2);
    {
      const Span inner("inner", cpu0);
      CHECK(Span::inside("outer"));
      spin(3);
    }
    {
      const Span waiting(nullptr, cpu0);
      spin(4);
    }
  }
  CHECK_FALSE(Span::inside("outer"));
  std::thread([] { const Span other("outer", cpu1, "communication"); }).join();
  recorder().step_done();
  const Profile profile = recorder().take();
  const int64_t outer = phase(profile, "outer", "cpu:0").nanoseconds, inner = phase(profile, "inner", "cpu:0").nanoseconds;
  CHECK(outer >= 2'000'000);
  CHECK(inner >= 3'000'000);
  REQUIRE(profile.spans.size() == 3);
  CHECK(profile.spans[1].end - profile.spans[1].begin >= outer + inner + 4'000'000);  // the whole of it
  CHECK(phase(profile, "outer", "cpu:1 communication").spans == 1);
  CHECK(profile.steps == 1);
  CHECK(profile.step_nanoseconds[0] >= outer + inner);
}

TEST_CASE("profile: transfers add up by phase, kind and ends, on one device nothing moves") {
  recorder().start();
  count_transfer("scatter", "input", cpu0, cpu1, 10);
  count_transfer("scatter", "input", cpu0, cpu1, 5);
  count_transfer("scatter", "labels", cpu0, cpu1, 3);
  count_transfer("scatter", "input", cpu0, cpu0, 1000);
  count_transfer("all_reduce", "gradients", "rank 0", "rank 1", 7);
  Tensor::ones({3}).to(cpu1);
  const Profile profile = recorder().take();
  REQUIRE(profile.transfers.size() == 4);
  CHECK(profile.transfers[0].transfers == 2);
  CHECK(profile.bytes("scatter", "input") == 15);
  CHECK(profile.bytes("scatter") == 18);
  CHECK(profile.bytes("all_reduce") == 7);
  CHECK(profile.bytes("to") == 12);
}

TEST_CASE("profile: a training step on one device shows its phases, an evaluation none") {
  Linear linear(4, 3);
  SGD optimizer(linear.parameters(), {.lr = 0.1});
  recorder().start(true);
  const Tensor loss = functional::cross_entropy(linear(Tensor::ones({2, 4})), Tensor::from(std::vector<int64_t>{0, 2}, {2}));
  loss.backward();
  optimizer.step();
  recorder().step_done();
  {
    const RecordingPaused paused;
    linear(Tensor::ones({200'000, 4}));
  }
  const Profile profile = recorder().take();
  for (const char* name : {"forward", "loss", "backward", "step"}) CHECK(phase(profile, name, "cpu:0").spans >= 1);
  CHECK(phase(profile, "forward", "cpu:0").spans == 1);
  REQUIRE(profile.peak_bytes.size() >= 1);
  CHECK(profile.peak_bytes[0].first == "cpu:0");
  CHECK(profile.peak_bytes[0].second > 0);
  CHECK(profile.peak_bytes[0].second < 1'000'000);
  CHECK(profile_table(profile).find("backward") != std::string::npos);
  CHECK_THAT(profile_table(Profile{}), ContainsSubstring("no training step"));
}

TEST_CASE("the profile tells how much of the all-reduces is hidden behind backward") {
  Profile profile;
  profile.steps = 2;
  profile.nanoseconds = 100'000'000;
  profile.phases = {{"backward", "cpu:0", 2, 40'000'000}, {"all-reduce", "cpu:0 communication", 4, 20'000'000}};
  CHECK_THAT(profile_table(profile), ContainsSubstring("100% of the all-reduces' time is hidden"));
  profile.phases.push_back({"communication", "cpu:0", 2, 5'000'000});
  CHECK_THAT(profile_table(profile), ContainsSubstring("75% of the all-reduces' time is hidden"));
  profile.phases.back().nanoseconds = 21'000'000;  // the wait includes copies, so it may be longer
  CHECK_THAT(profile_table(profile), ContainsSubstring("\n0% of the all-reduces' time is hidden"));
  profile.phases.erase(profile.phases.begin() + 1);
  CHECK(profile_table(profile).find("hidden") == std::string::npos);
}

TEST_CASE("trace: one row a device, nanoseconds kept, ranks apart") {
  Profile profile;
  profile.spans = {{"forward", "cpu:10", 5'000'000'000'123, 5'000'000'001'125},
                   {"forward", "cpu:2", 5'000'000'000'000, 5'000'000'000'500},
                   {"all_reduce", "cpu:2 communication", 1, 2}};
  profile.spans_dropped = 4;
  const auto trace = nlohmann::json::parse(trace_json(profile, 3));
  std::map<int, std::string> rows;
  std::vector<nlohmann::json> spans;
  for (const auto& event : trace.at("traceEvents")) {
    CHECK(event.at("pid") == 3);
    if (event.at("ph") == "M" && event.at("name") == "thread_name") rows[event.at("tid")] = event.at("args").at("name");
    if (event.at("ph") == "X") spans.push_back(event);
  }
  CHECK(rows == std::map<int, std::string>{{0, "cpu:2"}, {1, "cpu:10"}, {2, "cpu:2 communication"}});
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].at("tid") == 1);
  CHECK(spans[0].at("ts").get<double>() == Approx(5'000'000'000.123).epsilon(1e-15));
  CHECK(spans[0].at("dur").get<double>() == Approx(1.002));
  CHECK(trace.at("otherData").at("spans_left_out") == 4);
  CHECK(trace_path("out/trace.json", 0) == "out/trace.json");
  CHECK(trace_path("out/trace.json", 2) == "out/trace.rank2.json");
}
