// Chapter 01's program against PyTorch's recorded numbers, and live where PyTorch is installed. tests/parity/README.md names the files.
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/catch.h"
#include "tests/support/check_agrees.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
using namespace miniddp::testing;
using std::chrono::seconds;

namespace {

using Arguments = std::vector<std::string>;

const std::string source = MINIDDP_SOURCE_DIR, binary = MINIDDP_BINARY_DIR;
const std::string recorded = source + "/tests/parity/recorded/";

/// The program's own options come last, so that a test may override these.
Arguments command(Arguments program, const Arguments& options) {
  program.insert(program.end(), {"--data", source + "/datasets/mnist", "--threads", "1"});
  program.insert(program.end(), options.begin(), options.end());
  return program;
}

Arguments ours(const Arguments& options) {
  Arguments result = command({binary + "/bin/01_single_device"}, options);
  result.insert(result.end(), {"--device", "cpu"});
  return result;
}

/// PyTorch gives each tensor's memory back to the system; these variables make it keep it, which is faster. Values do not change.
const std::map<std::string, std::string> pytorch_environment{
    {"MALLOC_MMAP_MAX_", "0"}, {"MALLOC_TRIM_THRESHOLD_", "100000000000"}, {"MALLOC_TOP_PAD_", "268435456"}};

const std::string python = MINIDDP_PYTHON;

std::string run(const Arguments& arguments, seconds limit = seconds(300)) {
  const ProgramResult result = run_program(arguments, limit, pytorch_environment);
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  return result.output;
}

std::vector<double> losses_of(Arguments arguments, size_t steps) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "losses.csv";
  arguments.insert(arguments.end(), {"--quiet", "--max-steps", std::to_string(steps), "--loss-csv", path});
  run(arguments);
  return read_loss_csv(path);
}

void check_recorded(const std::string& file, size_t steps, double tolerance, const Arguments& options) {
  check_agrees(compare(losses_of(ours(options), steps), read_loss_csv(recorded + file, steps), tolerance, "step"), file);
}

/// One of the articles' log lines, in two parts. `loss` is NaN if the line is none.
struct LogLine {
  std::string text;
  double loss = std::nan("");
};

LogLine parse(const std::string& line) {
  static const std::regex pattern("(Train Epoch: .*\tLoss: )([0-9]+\\.[0-9]{6})");
  std::smatch match;
  if (!std::regex_match(line, match, pattern)) return {line};
  return {match[1], std::stod(match[2])};
}

std::vector<LogLine> training_lines(const std::vector<std::string>& lines) {
  std::vector<LogLine> result;
  for (const std::string& line : lines)
    if (line.starts_with("Train")) result.push_back(parse(line));
  return result;
}

struct TestResult {
  double loss = std::nan("");
  int correct = -1, total = 0;
};

std::vector<TestResult> test_results(const std::string& output) {
  static const std::regex pattern("Test set: Average loss: ([0-9]+\\.[0-9]{4}), Accuracy: ([0-9]+)/([0-9]+) \\([0-9]+%\\)");
  std::vector<TestResult> results;
  std::smatch match;
  for (const std::string& line : split_lines(output))
    if (std::regex_match(line, match, pattern)) results.push_back({std::stod(match[1]), std::stoi(match[2]), std::stoi(match[3])});
  return results;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  check<DataError>(file.good(), "expected a file at {}, found none", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<TestResult> recorded_results(const std::string& file) {
  std::vector<TestResult> results;
  const nlohmann::json run = nlohmann::json::parse(read_text(recorded + file));
  for (const auto& epoch : run.at("epochs"))
    results.push_back({epoch.at("test_loss"), epoch.at("correct"), epoch.at("total")});
  return results;
}

/// Accuracy within `points` percentage points after the last of `epochs` epochs.
void check_accuracy(const std::string& file, size_t epochs, double points, const Arguments& options, seconds limit) {
  Arguments arguments = ours(options);
  arguments.insert(arguments.end(), {"--epochs", std::to_string(epochs)});
  const std::vector<TestResult> found = test_results(run(arguments, limit)), expected = recorded_results(file);
  REQUIRE(expected.size() >= epochs);
  REQUIRE(found.size() == epochs);
  const TestResult &last = found.back(), &reference = expected[epochs - 1];
  REQUIRE(reference.correct > reference.total / 2);
  REQUIRE(last.total == reference.total);
  const double difference = 100.0 * std::abs(last.correct - reference.correct) / reference.total;
  INFO("PyTorch: " << reference.correct << " correct, ours: " << last.correct << " of " << last.total);
  CHECK(difference <= points);
}

}  // namespace

TEST_CASE("chapter 01: article A's first 20 losses are PyTorch's within 1e-5, seeds 0, 1, 42") {
  for (const std::string seed : {"0", "1", "42"})
    check_recorded("article_a_no_dropout_seed" + seed + ".csv", 20, 1e-5, {"--model", "article_a", "--no-dropout", "--seed", seed});
}

TEST_CASE("chapter 01: article B's first 20 losses without dropout are PyTorch's within 1e-5, seeds 0, 1, 42") {
  for (const std::string seed : {"0", "1", "42"})
    check_recorded("article_b_no_dropout_seed" + seed + ".csv", 20, 1e-5, {"--model", "article_b", "--no-dropout", "--seed", seed});
}

TEST_CASE("chapter 01: article B's first 20 losses with dropout are PyTorch's within 1e-5 (masks drawn alike)") {
  check_recorded("article_b_dropout_seed1.csv", 20, 1e-5, {"--model", "article_b", "--seed", "1"});
}

TEST_CASE("chapter 01: article A's first 200 losses are PyTorch's within 2e-4") {
  check_recorded("article_a_seed1_200_steps.csv", 200, 2e-4, {"--model", "article_a", "--seed", "1"});
}

TEST_CASE("chapter 01: article A prints the article's log, 188 lines, losses within 2e-4") {
  const std::string output = run(ours({"--model", "article_a", "--seed", "0", "--epochs", "2", "--sampler", "distributed", "--no-set-epoch"}));
  const std::vector<LogLine> found = training_lines(split_lines(output));
  const std::vector<LogLine> expected = training_lines(split_lines(read_text(recorded + "article_a_seed0.log")));
  REQUIRE(expected.size() == 188);
  REQUIRE(found.size() == expected.size());
  std::vector<double> found_losses, expected_losses;
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(found[i].text == expected[i].text);
    found_losses.push_back(found[i].loss);
    expected_losses.push_back(expected[i].loss);
  }
  check_agrees(compare(found_losses, expected_losses, 2e-4, "line"), "article_a_seed0.log");
}

TEST_CASE("chapter 01: article A's test accuracy after 2 epochs is PyTorch's within 0.3 points") {
  check_accuracy("article_a_seed1_epochs.json", 2, 0.3, {"--model", "article_a", "--seed", "1"}, seconds(300));
}

TEST_CASE("chapter 01: article B's test accuracy after 3 epochs with dropout is PyTorch's within 0.3 points") {
  check_accuracy("article_b_dropout_seed1_epochs.json", 3, 0.3, {"--model", "article_b", "--seed", "1"}, seconds(580));
}

TEST_CASE("chapter 01: article B's test accuracy after 10 epochs with dropout is PyTorch's within 0.3 points", "[.][long]") {
  check_accuracy("article_b_dropout_seed1_epochs.json", 10, 0.3, {"--model", "article_b", "--seed", "1"}, seconds(1800));
}

TEST_CASE("chapter 01, negative control: another momentum, seed or order is noticed") {
  const std::vector<double> expected = read_loss_csv(recorded + "article_a_no_dropout_seed1.csv", 20);
  const std::vector<Arguments> wrong{{"--momentum", "0.499"}, {"--lr", "0.01001"}, {"--seed", "2"}, {"--no-shuffle"}, {"--sampler", "distributed"}};
  for (const Arguments& options : wrong) {
    Arguments arguments = ours({"--model", "article_a", "--no-dropout"});
    if (options[0] != "--seed") arguments.insert(arguments.end(), {"--seed", "1"});
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Comparison result = compare(losses_of(arguments, 20), expected, 1e-5, "step");
    INFO(options[0] << ": " << result.message);
    CHECK_FALSE(result.passed);
  }
}

TEST_CASE("chapter 01, live: the first 20 losses of both models are PyTorch's within 1e-5") {
  const ProgramResult import = run_program({python, "-c", "import torch, numpy"}, seconds(100));
  if (import.exit_code != 0) SKIP_TEST("PYTORCH", python + " cannot import torch and numpy (package python3-torch)");
  const Arguments reference{python, source + "/tests/parity/reference.py"};
  for (const Arguments& options : {Arguments{"--model", "article_a", "--seed", "7"}, Arguments{"--model", "article_b", "--seed", "7", "--no-dropout"},
                                   Arguments{"--model", "article_b", "--seed", "8", "--no-dropout", "--no-shuffle", "--batch-size", "13"}})
    check_agrees(compare(losses_of(ours(options), 20), losses_of(command(reference, options), 20), 1e-5, "step"), options[1] + " " + options[3]);
}
