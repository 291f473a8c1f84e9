// Chapter 05's program, started by the launcher: PyTorch's losses, the article's log, and the other launchers' variables.
#include "common/core/file.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
using namespace miniddp::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string bin = MINIDDP_BINARY_DIR "/bin/";
const std::string recorded = MINIDDP_SOURCE_DIR "/tests/parity/recorded/";

ProgramResult launch(int nproc, std::vector<std::string> options) {
  std::vector<std::string> command{bin + "launch", "--nproc", std::to_string(nproc), "--no-prefix", "--", bin + "05_distributed_data_parallel",
                                   "--data", MINIDDP_SOURCE_DIR "/datasets/mnist", "--threads", "1", "--device", "cpu"};
  command.insert(command.end(), options.begin(), options.end());
  return run_program(command, std::chrono::seconds(200));
}

// The mean loss over all ranks of every step.
std::vector<double> losses_of(int nproc, std::vector<std::string> options) {
  const TemporaryDirectory directory;
  const std::string csv = directory.path() / "loss.csv";
  options.insert(options.end(), {"--quiet", "--loss-csv", csv});
  const ProgramResult result = launch(nproc, options);
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  return read_loss_csv(csv);
}

std::vector<double> recorded_losses(const std::string& name) { return read_loss_csv(recorded + name); }

void check_losses(const std::vector<double>& found, const std::vector<double>& expected, size_t steps, double tolerance) {
  const Comparison comparison = compare(found, expected, tolerance, "step");
  INFO(comparison.message);
  CHECK(expected.size() == steps);
  CHECK(comparison.passed);
}

}  // namespace

TEST_CASE("chapter 05: 2 and 3 processes have PyTorch DDP's losses over 20 steps") {
  for (const auto& [model, nproc, seed] : std::vector<std::tuple<std::string, int, std::string>>{
           {"article_a", 2, "0"}, {"article_a", 2, "1"}, {"article_a", 3, "0"}, {"article_a", 3, "1"},
           {"article_b", 2, "0"}, {"article_b", 3, "0"}, {"article_b", 3, "1"}}) {
    INFO(model << ", " << nproc << " processes, seed " << seed);
    check_losses(losses_of(nproc, {"--model", model, "--no-dropout", "--seed", seed, "--max-steps", "20"}),
                 recorded_losses(fmt::format("ddp_{}_{}_ranks_seed{}.csv", model, nproc, seed)), 20, 1e-5);
  }
}

TEST_CASE("chapter 05: article A on 2 processes has PyTorch DDP's losses within 2e-4 for a whole epoch") {
  check_losses(losses_of(2, {"--model", "article_a", "--seed", "1", "--epochs", "1"}),
               recorded_losses("ddp_article_a_2_ranks_seed1_epoch.csv"), 469, 2e-4);
}

TEST_CASE("chapter 05, live: 2 processes have PyTorch DDP's losses with a seed that is not recorded") {
  const std::string python = MINIDDP_PYTHON;
  const ProgramResult import = run_program({python, "-c", "import torch.distributed, numpy"}, std::chrono::seconds(100));
  if (import.exit_code != 0) SKIP_TEST("PYTORCH", python + " cannot import torch and numpy (package python3-torch)");
  const TemporaryDirectory directory;
  const std::string csv = directory.path() / "loss.csv";
  const std::vector<std::string> options{"--model", "article_b", "--no-dropout", "--seed", "11", "--max-steps", "20", "--batch-size", "13"};
  std::vector<std::string> reference{python, MINIDDP_SOURCE_DIR "/tests/parity/reference_ddp.py", "--nproc", "2", "--data",
                                     MINIDDP_SOURCE_DIR "/datasets/mnist", "--quiet", "--loss-csv", csv};
  reference.insert(reference.end(), options.begin(), options.end());
  const ProgramResult result = run_program(reference, std::chrono::seconds(200));
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  check_losses(losses_of(2, options), read_loss_csv(csv), 20, 1e-5);
}

TEST_CASE("chapter 05: one process with --no-set-epoch prints article A's log") {
  const ProgramResult result = launch(1, {"--model", "article_a", "--no-set-epoch", "--seed", "0"});
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  const auto training_lines = [](const std::string& text) {
    std::vector<std::string> lines;
    for (const std::string& line : split_lines(text)) {
      if (line.starts_with("Train")) lines.push_back(line);
    }
    return lines;
  };
  const std::vector<std::string> found = training_lines(result.output), expected = training_lines(read_file(recorded + "article_a_seed0.log", "the log"));
  REQUIRE(expected.size() == 188);
  REQUIRE(found.size() == 188);
  std::vector<double> found_losses, expected_losses;
  for (size_t i = 0; i < 188; ++i) {
    const size_t at = expected[i].find("Loss: ") + 6;
    CHECK(found[i].substr(0, at) == expected[i].substr(0, at));
    found_losses.push_back(std::stod(found[i].substr(at)));
    expected_losses.push_back(std::stod(expected[i].substr(at)));
  }
  const Comparison comparison = compare(found_losses, expected_losses, 2e-4, "line");
  INFO(comparison.message);
  CHECK(comparison.passed);
}

TEST_CASE("chapter 05: every sample of the test set counts once, on any number of processes (P5)") {
  for (int nproc : {2, 3}) {
    const ProgramResult result = launch(nproc, {"--model", "article_a", "--max-steps", "10"});
    INFO(result.summary());
    REQUIRE(result.exit_code == 0);
    CHECK_THAT(result.output, ContainsSubstring("/10000 ("));
  }
}

TEST_CASE("chapter 05: mpirun starts it too, with the same losses") {
  const TemporaryDirectory directory;
  const std::string ours = directory.path() / "launch.csv", theirs = directory.path() / "mpirun.csv";
  const std::vector<std::string> options{"--model", "article_a", "--seed", "3", "--max-steps", "10", "--quiet", "--threads", "1",
                                         "--data", MINIDDP_SOURCE_DIR "/datasets/mnist"};
  std::vector<std::string> command{"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", bin + "05_distributed_data_parallel"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--loss-csv", theirs});
  const ProgramResult found = run_program({"sh", "-c", "command -v mpirun"}, std::chrono::seconds(10));
  if (found.exit_code != 0) SKIP_TEST("MPIRUN", "mpirun was not found (package openmpi-bin)");
  const ProgramResult mpirun = run_program(command, std::chrono::seconds(100));
  INFO(mpirun.summary());
  REQUIRE(mpirun.exit_code == 0);
  REQUIRE(launch(2, {"--model", "article_a", "--seed", "3", "--max-steps", "10", "--quiet", "--loss-csv", ours}).exit_code == 0);
  const Comparison comparison = compare(read_loss_csv(ours), read_loss_csv(theirs), 1e-6, "step");
  INFO(comparison.message);
  CHECK(comparison.passed);
}

TEST_CASE("chapter 05: wrong usage exits 2, a program that was not launched exits 1 and says how") {
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--sampler", "random"}, {"--devices", "2"}, {"--reducer", "per-gradient", "--compress", "fp16"}, {"--bucket-cap-mb", "0"}}) {
    std::vector<std::string> command{bin + "05_distributed_data_parallel"};
    command.insert(command.end(), wrong.begin(), wrong.end());
    const ProgramResult result = run_program(command, std::chrono::seconds(20));
    INFO(result.summary());
    CHECK(result.exit_code == 2);
  }
  const ProgramResult alone = run_program({"env", "-u", "RANK", bin + "05_distributed_data_parallel"}, std::chrono::seconds(20));
  CHECK(alone.exit_code == 1);
  CHECK_THAT(alone.errors, ContainsSubstring("RANK expected, but not set"));
}

TEST_CASE("chapter 05: a run that is interrupted and resumed has the losses of one that is not, dropout of every rank included") {
  const TemporaryDirectory directory;
  const auto file = [&](const std::string& name) { return (directory.path() / name).string(); };
  const auto run = [&](int nproc, std::vector<std::string> more) {
    std::vector<std::string> options{"--model", "article_b", "--batch-size", "7", "--test-batch-size", "1000", "--quiet"};
    options.insert(options.end(), more.begin(), more.end());
    return launch(nproc, options);
  };
  const auto succeeds = [&](const std::vector<std::string>& more) {
    const ProgramResult result = run(2, more);
    INFO(result.summary());
    REQUIRE(result.exit_code == 0);
  };
  succeeds({"--max-steps", "9", "--loss-csv", file("whole.csv")});
  succeeds({"--max-steps", "4", "--save", file("half.safetensors")});
  succeeds({"--max-steps", "9", "--resume", file("half.safetensors"), "--loss-csv", file("rest.csv")});
  // The mean over the ranks: it is right only if both drew the right dropout masks.
  const std::vector<std::string> whole = split_lines(read_file(file("whole.csv"), "losses")), rest = split_lines(read_file(file("rest.csv"), "losses"));
  REQUIRE(whole.size() == 10);
  REQUIRE(rest.size() == 6);
  CHECK(std::vector(whole.end() - 5, whole.end()) == std::vector(rest.begin() + 1, rest.end()));
  const ProgramResult alone = run(1, {"--max-steps", "9", "--resume", file("half.safetensors")});
  CHECK(alone.exit_code == 1);
  CHECK_THAT(alone.errors, ContainsSubstring("it was saved with processes = 2, this run has 1"));
}
