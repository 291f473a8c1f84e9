// Chapter 06's program: what it finds, what it writes, and what it does when a part of it fails.
#include <signal.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "chapters/06_dp_vs_ddp/bytes.h"
#include "chapters/06_dp_vs_ddp/page.h"
#include "chapters/06_dp_vs_ddp/report.h"
#include "common/core/file.h"
#include "tests/support/browser.h"
#include "tests/support/catch.h"
#include "tests/support/processes.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
using namespace miniddp::testing;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const std::string program = MINIDDP_BINARY_DIR "/bin/06_dp_vs_ddp";

ProgramResult compare_program(const std::filesystem::path& output, std::vector<std::string> options) {
  std::vector<std::string> command{program, "--device", "cpu", "--data", MINIDDP_SOURCE_DIR "/datasets/mnist", "--output", output.string()};
  command.insert(command.end(), options.begin(), options.end());
  return run_program(command, std::chrono::seconds(200));
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

Report read_report(const std::filesystem::path& folder) { return json::parse(read_file(folder / "report.json", "a report")).get<Report>(); }

/// A small comparison; it must succeed.
Report small_report(const std::filesystem::path& folder, const std::map<std::string, std::string>& more = {}) {
  std::map<std::string, std::string> values = more;
  values.insert({{"--model", "article_a"}, {"--steps", "2"}, {"--runs", "1"}, {"--parity-steps", "3"}});  // where `more` says nothing
  std::vector<std::string> options;
  for (const auto& [name, value] : values) options.insert(options.end(), {name, value});
  const ProgramResult result = compare_program(folder, options);
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  return read_report(folder);
}

void check_report(const Report& report, int devices, int64_t parity_steps, double tolerance) {
  std::set<std::string> names;
  for (const Variant& variant : report.variants) {
    INFO(variant.title << ", " << devices << " devices");
    names.insert(variant.name);
    CHECK(variant.parity.passed);
    REQUIRE(variant.parity.losses.size() == static_cast<size_t>(parity_steps));
    for (const double difference : variant.parity.loss) CHECK(difference <= tolerance);
    CHECK(variant.parity.losses.back() != variant.parity.losses.front());
    CHECK(variant.speed.run_step_ms.size() == static_cast<size_t>(report.runs));
    CHECK(variant.speed.step_ms > 0);
    CHECK(variant.speed.lowest_step_ms <= variant.speed.step_ms);
    CHECK(variant.speed.step_ms <= variant.speed.highest_step_ms);
    CHECK((variant.kind == "one" || variant.speed.exposed_ms > 0));
    int64_t counted = 0;
    for (const ByteCount& row : variant.bytes) {
      INFO(row.phase << ", " << row.from << " to " << row.to);
      CHECK(row.counted == row.formula);
      CHECK(row.counted > 0);
      counted += row.counted;
    }
    // All ranks of a ring together send 2 (N - 1) times the gradients, and so do DP's copies; DP moves the batch besides.
    const int64_t gradients = 2 * (devices - 1) * report.parameter_bytes();
    if (variant.kind == "one") CHECK(counted == 0);
    if (variant.kind == "ddp") CHECK(counted == gradients);
    if (variant.kind == "dp") {
      const int64_t elsewhere = report.global_batch - report.global_batch / devices;
      CHECK(counted == gradients + elsewhere * (784 + 2 * 10) * 4);
    }
    REQUIRE(variant.memory.size() == static_cast<size_t>(variant.kind == "one" ? 1 : devices));
    for (const Memory& row : variant.memory) {
      CHECK(row.parameters == report.parameter_bytes());
      CHECK(row.rest >= 0);
      CHECK(row.peak == row.parameters + row.gradients + row.momentum + row.buckets + row.rest);
    }
    CHECK((variant.memory[0].buckets > 0) == (variant.name == "ddp_buckets" || variant.name == "ddp_overlap"));
    CHECK(variant.timeline.size() >= (variant.kind == "one" ? 1u : static_cast<size_t>(devices)));
  }
  for (const std::string name : {"one", "dp", "ddp_after_backward", "ddp_per_gradient", "ddp_buckets", "ddp_overlap"}) CHECK(names.count(name) == 1);
  CHECK(report.variant("ddp_after_backward").speed.hidden_ms == 0);
  REQUIRE(report.clocks.size() == static_cast<size_t>(devices - 1));
  for (const ClockOffset& clock : report.clocks) CHECK(std::abs(clock.offset_us) <= 1000);
}

/// Spans of each row lie inside one another or apart. Returns their number.
int check_trace(const std::filesystem::path& folder) {
  const json trace = json::parse(read_file(folder / "trace.json", "a trace"));
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> rows;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts").get<double>();
    rows[{event.at("pid").get<int>(), event.at("tid").get<int>()}].emplace_back(begin, begin + event.at("dur").get<double>());
  }
  int spans = 0;
  constexpr double rounding = 0.01;  // microseconds: the steady clock in doubles
  for (auto& [row, list] : rows) {
    INFO("process " << row.first << ", row " << row.second);
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return std::pair(a.first, -a.second) < std::pair(b.first, -b.second); });
    std::vector<double> open;
    int crossings = 0;
    for (const auto& [begin, end] : list) {
      while (!open.empty() && open.back() <= begin + rounding) open.pop_back();
      if (!open.empty() && end > open.back() + rounding) ++crossings;
      open.push_back(end);
      ++spans;
    }
    CHECK(crossings == 0);
  }
  return spans;
}

/// When the k-th all-reduce ran, of each process of the trace whose name begins with `title`.
std::vector<std::vector<std::pair<double, double>>> all_reduces(const std::filesystem::path& folder, const std::string& title) {
  const json trace = json::parse(read_file(folder / "trace.json", "a trace"));
  std::map<int, std::vector<std::pair<double, double>>> found;
  for (const json& event : trace.at("traceEvents")) {
    const int process = event.at("pid").get<int>();
    if (event.at("name") == "process_name" && event.at("args").at("name").get<std::string>().starts_with(title)) found[process];
    if (event.at("name") == "all-reduce" && found.count(process)) {
      const double begin = event.at("ts").get<double>();
      found[process].emplace_back(begin, begin + event.at("dur").get<double>());
    }
  }
  std::vector<std::vector<std::pair<double, double>>> lists;
  for (auto& [process, list] : found) {
    std::sort(list.begin(), list.end());
    lists.push_back(list);
  }
  return lists;
}

std::string found_for(const Report& report, const std::string& difference, std::string BehaviourRow::*column) {
  for (const BehaviourRow& row : report.behaviour) {
    if (row.difference.starts_with(difference)) return row.*column;
  }
  return "no such row";
}

}  // namespace

TEST_CASE("compare: article B on 2 devices and processes, 20 steps") {
  const TemporaryDirectory directory;
  const ProgramResult result = compare_program(directory.path(), {"--steps", "3", "--runs", "3"});
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  CHECK(names_in(directory.path()) == std::vector<std::string>{"index.html", "report.json", "trace.json"});
  for (const char* text : {"Parity", "Speed", "Phases", "Bytes", "Memory", "Behaviour", "DDP, buckets with overlap"}) {
    CHECK_THAT(result.output, ContainsSubstring(text));
  }
  check_report(read_report(directory.path()), 2, 20, 5e-6);
  CHECK(check_trace(directory.path()) > 100);
}

TEST_CASE("compare: article A on 4 and on 3 devices and processes, 10 steps") {
  for (const auto& [devices, batch] : std::vector<std::pair<int, int>>{{4, 64}, {3, 63}}) {
    const TemporaryDirectory directory;
    const Report report = small_report(
        directory.path(), {{"--devices", std::to_string(devices)}, {"--global-batch", std::to_string(batch)}, {"--parity-steps", "10"}});
    check_report(report, devices, 10, 1e-6);
    CHECK(check_trace(directory.path()) > 50);
  }
}

TEST_CASE("compare: an all-reduce is seen at the same time by both ranks") {
  const TemporaryDirectory directory;
  small_report(directory.path(), {{"--steps", "10"}});
  const auto ranks = all_reduces(directory.path(), "DDP, buckets with overlap");
  REQUIRE(ranks.size() == 2);
  REQUIRE(ranks[0].size() >= 10);
  REQUIRE(ranks[1].size() == ranks[0].size());
  for (size_t i = 0; i < ranks[0].size(); ++i) {
    INFO("all-reduce " << i);  // neither can end before the other has begun; within 1 ms
    CHECK(ranks[0][i].first <= ranks[1][i].second + 1000);
    CHECK(ranks[1][i].first <= ranks[0][i].second + 1000);
  }
}

TEST_CASE("compare: bytes of a ring by formula") {
  CHECK(ring_bytes(8, 0, 1) == 0);
  CHECK(ring_bytes(8, 0, 2) == 8 * 4);
  CHECK(ring_bytes(8, 3, 4) == 2 * 6 * 4);
  // 7 elements on 3 ranks: chunks of 2, 2 and 3; rank 0 sends chunks 0, 2, then 1, 0.
  CHECK(ring_bytes(7, 0, 3) == (2 + 3 + 2 + 2) * 4);
  for (const int ranks : {2, 3, 5, 8}) {
    for (const int64_t elements : {1, 13, 1199882}) {
      int64_t all = 0;
      for (int rank = 0; rank < ranks; ++rank) all += ring_bytes(elements, rank, ranks);
      CHECK(all == 2 * (ranks - 1) * elements * 4);
    }
  }
  // What was counted and not foreseen is seen, and steps that differ are an error.
  const std::vector<ByteCount> rows = beside_counted({{"scatter", "input", "cpu:0", "cpu:1", 0, 10, ""}}, {{"reduce", "gradients", "cpu:1", "cpu:0", 2, 20}}, 2);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].counted == 0);
  CHECK((rows[1].counted == 10 && rows[1].formula == 0));
  CHECK_THROWS_AS(beside_counted({}, {{"reduce", "gradients", "cpu:1", "cpu:0", 2, 21}}, 2), Error);
}

TEST_CASE("compare: what the table says of DDP is what two processes do") {
  const TemporaryDirectory directory;
  const Report report = small_report(directory.path());
  CHECK(report.behaviour.size() == 11);
  const auto one = &BehaviourRow::one, dp = &BehaviourRow::dp, ddp = &BehaviourRow::ddp;
  CHECK(found_for(report, "Gradients", one) == "10");
  CHECK(found_for(report, "Gradients", dp) == "10");
  CHECK_THAT(found_for(report, "Gradients", ddp), ContainsSubstring("5 on both ranks"));
  CHECK(found_for(report, "Uneven", one) == "2");
  CHECK_THAT(found_for(report, "Uneven", dp), ContainsSubstring("2 (one mean"));
  CHECK_THAT(found_for(report, "Uneven", ddp), ContainsSubstring("2.25"));
  CHECK(found_for(report, "BatchNorm", one) == "0.6");
  CHECK_THAT(found_for(report, "BatchNorm", dp), ContainsSubstring("0.1"));
  CHECK(found_for(report, "BatchNorm", ddp) == "rank 0: 0.1; rank 1: 1.1");
  CHECK(found_for(report, "Buffers", one) == "30");
  CHECK_THAT(found_for(report, "Buffers", dp), ContainsSubstring("9 (replica 0's"));
  CHECK_THAT(found_for(report, "Buffers", ddp), ContainsSubstring("rank 0: 9, then 9; rank 1: 13, then 9"));
  CHECK_THAT(found_for(report, "Dropout", one), ContainsSubstring("one mask: no"));
  CHECK_THAT(found_for(report, "Dropout", dp), ContainsSubstring("one mask: yes"));
  CHECK_THAT(found_for(report, "Dropout", ddp), ContainsSubstring("one mask: yes; seeded with the rank added: no"));
  CHECK(found_for(report, "Random", dp) == "yes");
  CHECK_THAT(found_for(report, "Random", ddp), ContainsSubstring("no (DistributedSampler"));
  CHECK(found_for(report, "Names", one) == "weight");
  CHECK(found_for(report, "Names", dp) == "module.weight");
  CHECK(found_for(report, "Names", ddp) == "module.weight");
  CHECK_THAT(found_for(report, "An exception", dp), ContainsSubstring("replica 1 on device cpu:1: boom") && ContainsSubstring("the next step works: yes"));
  CHECK_THAT(found_for(report, "An exception", ddp), ContainsSubstring("rank 1 throws \"boom\"") && ContainsSubstring("rank 1 has left the group"));
  CHECK(found_for(report, "The loss", dp) == "2.5");
  CHECK_THAT(found_for(report, "The loss", ddp), ContainsSubstring("rank 0: 1.5 on its own, 2.5") && ContainsSubstring("rank 1: 3.5 on its own, 2.5"));
  CHECK(found_for(report, "Evaluation", dp) == "11 of 11 samples counted");
  CHECK_THAT(found_for(report, "Evaluation", ddp), ContainsSubstring("11 of 11") && ContainsSubstring("DistributedSampler 12"));
}

TEST_CASE("compare: a killed worker ends DP, and is noticed by DDP") {
  const TemporaryDirectory directory;
  const Report report = small_report(directory.path());
  CHECK_THAT(found_for(report, "A worker is killed", &BehaviourRow::dp), ContainsSubstring("the whole program ends (signal 9)"));
  CHECK_THAT(found_for(report, "A worker is killed", &BehaviourRow::ddp), ContainsSubstring("rank 1") && ContainsSubstring("(signal 9)"));
}

TEST_CASE("compare: a part that fails or takes too long is named, and nothing is written") {
  const std::vector<std::string> small{"--model", "article_a", "--steps", "2", "--runs", "1", "--parity-steps", "2"};
  for (const auto& [options, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--fail-role", "one:0"}, "one device, which failed with exit code 1"},
           {{"--fail-role", "dp:0"}, "DP on 2 devices, which failed with exit code 1"},
           {{"--fail-role", "ddp:1"}, "DDP on 2 processes, which failed with exit code 1"},
           {{"--fail-role", "behaviour_ddp:1"}, "behaviour of DDP, which failed with exit code 1"},
           {{"--timeout", "0.01"}, "one device, which was not done after 0.01 s"}}) {
    const TemporaryDirectory directory;
    write_file(directory.path() / "report.json", "the report of before");
    std::vector<std::string> all = small;
    all.insert(all.end(), options.begin(), options.end());
    const ProgramResult result = compare_program(directory.path(), all);
    INFO(result.summary());
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.errors, ContainsSubstring("error: the comparison needs " + message));
    CHECK(names_in(directory.path()) == std::vector<std::string>{"report.json"});
    CHECK(read_file(directory.path() / "report.json", "a report") == "the report of before");
  }
}

TEST_CASE("compare: Ctrl-C ends all parts, and leaves nothing") {
  const TemporaryDirectory directory;
  BackgroundProgram running({program, "--device", "cpu", "--data", MINIDDP_SOURCE_DIR "/datasets/mnist", "--output", directory.path().string(), "--steps", "10000"});
  REQUIRE(running.wait_for_output("compare: one device"));
  running.send_signal(SIGINT);
  CHECK(running.wait() == 1);
  CHECK(running.wait_until_gone());
  CHECK(names_in(directory.path()).empty());
}

TEST_CASE("compare: wrong usage exits 2") {
  const TemporaryDirectory directory;
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--devices", "3"}, {"--devices", "1"}, {"--backend", "nccl"}, {"--model", "article_c"}, {"--steps", "0"}}) {
    const ProgramResult result = compare_program(directory.path(), options);
    INFO(result.summary());
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.errors, ContainsSubstring("error: "));
  }
}

TEST_CASE("compare: every test that the table names exists and passes") {
  const TemporaryDirectory directory;
  const Report report = small_report(directory.path());
  const ProgramResult listed = run_program({"ctest", "--test-dir", MINIDDP_BINARY_DIR, "--show-only=json-v1"}, std::chrono::seconds(60));
  REQUIRE(listed.exit_code == 0);
  std::map<std::string, std::vector<std::string>> commands;
  const json list = json::parse(listed.output);
  for (const json& test : list.at("tests")) {
    if (test.contains("command")) commands[test.at("name")] = test.at("command").get<std::vector<std::string>>();
  }
  std::set<std::string> named;
  for (const BehaviourRow& row : report.behaviour) {
    INFO(row.difference);
    CHECK(row.tests.size() >= 1);
    named.insert(row.tests.begin(), row.tests.end());
  }
  CHECK(named.size() >= 15);
  for (const std::string& name : named) {
    INFO(name);
    INFO(commands.size() << " tests are listed");
    REQUIRE(commands.count(name) == 1);  // not there: it was renamed, or not all tests are built
    const ProgramResult result = run_program(commands.at(name), std::chrono::seconds(120), {{"OMP_WAIT_POLICY", "passive"}});
    INFO(result.summary());
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("compare: the page in a browser, 1280 and 400 pixels wide") {
  const std::string browser = find_browser();
  if (browser.empty()) SKIP_TEST("CHROMIUM", "no chromium was found (package chromium)");
  const TemporaryDirectory directory;
  const Report report = small_report(directory.path());
  const std::string page = read_file(directory.path() / "index.html", "a page");
  // Whatever it could ask a network for would stand there.
  for (const char* text : {"src=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket"}) CHECK(page.find(text) == std::string::npos);
  CHECK_THAT(page, ContainsSubstring("default-src 'none'"));
  for (const int width : {1280, 400}) {
    auto found = open_page(browser, page, width);
    INFO(width << " pixels: " << found["browser"]);
    CHECK(found["data-ready"] == "yes");
    CHECK(found["data-error"] == "");
    CHECK(found["data-charts"] == "8");
    CHECK(found["data-requests"] == "0");
    CHECK(found["data-width"] == std::to_string(width));
    CHECK(found["data-overflow"] == "0");
  }
  // A page that lacks what its script needs is noticed.
  Report broken = report;
  broken.variants.clear();
  auto found = open_page(browser, report_page(broken), 1280);
  CHECK(found["data-ready"] == "");
  CHECK(found["data-error"] != "");
}
