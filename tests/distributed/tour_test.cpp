// The tour: one table at the end, exit 0 only if every stage is the same training; every mistake is named with stage, step and tensor.
#include <signal.h>

#include <filesystem>
#include <limits>

#include "chapters/tour/verdict.h"
#include "common/core/file.h"
#include "tests/support/catch.h"
#include "tests/support/processes.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
using namespace miniddp::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace fs = std::filesystem;
const fs::path bin = MINIDDP_BINARY_DIR "/bin";

ProgramResult tour(std::vector<std::string> options, const fs::path& programs = bin) {
  std::vector<std::string> command{programs / "tour", "--data", MINIDDP_SOURCE_DIR "/datasets/mnist", "--model", "article_a"};
  command.insert(command.end(), options.begin(), options.end());
  return run_program(command, std::chrono::seconds(200));
}

/// A folder with the tour's programs, where `name` is another one: the shell script `script`; $REAL is the true program.
void replace_program(const fs::path& folder, const std::string& name, const std::string& script) {
  for (const auto& entry : fs::directory_iterator(bin)) {
    if (entry.path().filename() != "tour" && entry.path().filename() != name) fs::create_symlink(entry.path(), folder / entry.path().filename());
  }
  fs::copy_file(bin / "tour", folder / "tour");  // it looks for the others beside itself
  write_file(folder / name, "#!/bin/sh\nREAL=" + (bin / name).string() + "\n" + script + "\n");
  fs::permissions(folder / name, fs::perms::owner_all);
}

}  // namespace

TEST_CASE("tour: five stages, one table, exit 0") {
  std::vector<std::string> command{bin / "tour", "--model", "article_a", "--steps", "20"};
  const ProgramResult result = run_program(command, std::chrono::seconds(200), {{"MINIDDP_DATA", ""}});
  INFO(result.output);
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  size_t compared = 0;
  for (const std::string& line : split_lines(result.output)) {
    if (line.starts_with("0") && line.ends_with("%")) ++compared;  // a row of the table, with its accuracy
  }
  CHECK(compared == 5);
  for (const char* text : {"from PyTorch", "01 one device", "05 DistributedDataParallel", "All stages are the same training"})
    CHECK_THAT(result.output, ContainsSubstring(text));
  CHECK(result.errors.empty());
}

TEST_CASE("tour: three devices, other batches and another seed, for which PyTorch's losses are not recorded") {
  const ProgramResult result = tour({"--steps", "6", "--devices", "3", "--batch-size", "39", "--seed", "5"});
  INFO(result.output);
  INFO(result.summary());
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("3 processes") && ContainsSubstring("recorded for seed 0 and batches of 64 only"));
}

TEST_CASE("tour: --break makes it exit 1 and name stage, step and tensor") {
  struct Case {
    std::string mistake, step, tensor;
  };
  for (const Case& expected : {Case{"no-all-reduce", "step 2", "conv1.weight"}, Case{"sum", "step 2", "conv1.weight"},
                               Case{"no-broadcast", "step 1", "conv1.weight"}, Case{"drop-bucket", "step 2", "fc.weight"},
                               Case{"same-samples", "step 1", "conv1.weight"}}) {
    const ProgramResult result = tour({"--steps", "4", "--break", expected.mistake});
    INFO(expected.mistake << ": " << result.summary());
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.errors, ContainsSubstring("error: stage 04 (all-reduce by hand): " + expected.step + ": loss"));
    CHECK_THAT(result.errors, ContainsSubstring("the weights part in step 1: " + expected.tensor + " differs"));
    CHECK_THAT(result.output, ContainsSubstring("05 DistributedDataParallel"));  // the table is there all the same
    CHECK_THAT(result.output, !ContainsSubstring("All stages are the same training"));
  }
}

TEST_CASE("tour: any stage that trains otherwise is named, not only the one that --break breaks") {
  const TemporaryDirectory folder;
  replace_program(folder.path(), "03_data_parallel", "exec $REAL \"$@\" --lr 0.011");
  const ProgramResult result = tour({"--steps", "4"}, folder.path());
  INFO(result.summary());
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.errors, ContainsSubstring("error: stage 03 (DataParallel): step 2: loss") &&
                                ContainsSubstring("the weights part in step 1: conv1.weight differs"));
  CHECK_THAT(result.errors, !ContainsSubstring("stage 02") && !ContainsSubstring("stage 05"));
}

TEST_CASE("tour: a stage that crashes is named, with its last words") {
  const ProgramResult killed = tour({"--steps", "4", "--break", "crash"});
  INFO(killed.summary());
  CHECK(killed.exit_code == 1);
  CHECK_THAT(killed.errors, ContainsSubstring("error: stage 04 (all-reduce by hand): its program tour_all_reduce_by_hand ended with exit code 137") &&
                                ContainsSubstring("rank 1 failed first"));
  CHECK_THAT(killed.output, ContainsSubstring("failed") && ContainsSubstring("05 DistributedDataParallel"));

  const TemporaryDirectory folder;
  replace_program(folder.path(), "01_single_device", "echo my last words >&2; exit 3");
  const ProgramResult first = tour({"--steps", "4"}, folder.path());
  INFO(first.summary());
  CHECK(first.exit_code == 1);
  CHECK_THAT(first.errors, ContainsSubstring("error: stage 01 (one device)") && ContainsSubstring("exit code 3") && ContainsSubstring("my last words"));
  CHECK_THAT(first.output, ContainsSubstring("not reached"));
}

TEST_CASE("tour: a stage that hangs is ended at the time limit and named") {
  const TemporaryDirectory folder;
  replace_program(folder.path(), "02_manual_parallel", "sleep 100");
  const ProgramResult result = tour({"--steps", "4", "--timeout", "4"}, folder.path());
  INFO(result.summary());
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.errors, ContainsSubstring("stage 02 (several devices by hand)") && ContainsSubstring("the time limit, --timeout"));
}

TEST_CASE("tour: killed in the middle it leaves no process behind") {
  for (const int signal : {SIGTERM, SIGKILL}) {
    BackgroundProgram program({bin / "tour", "--steps", "900", "--model", "article_b"});
    REQUIRE(program.wait_for_output("Train Epoch", std::chrono::seconds(60)));
    program.send_signal(signal);
    CHECK(program.wait(std::chrono::seconds(30)) == 128 + signal);
    CHECK(program.wait_until_gone(std::chrono::seconds(30)));
    CHECK_THAT(program.output(), !ContainsSubstring("All stages"));
  }
}

TEST_CASE("tour: wrong usage exits 2") {
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--devices", "3"}, {"--steps", "0"}, {"--steps", "938"}, {"--break", "leg"}, {"--break", "sum", "--devices", "1"}, {"--model", "c"}}) {
    const ProgramResult result = tour(wrong);
    INFO(wrong[0] << " " << wrong[1] << ": " << result.summary());
    CHECK(result.exit_code == 2);
  }
}

TEST_CASE("tour, verdict: losses agree only if every difference is within the tolerance, and NaN never is") {
  const std::vector<double> losses{2.3, 2.1, 1.9};
  CHECK(compare_losses(losses, losses, 0).first_step == 0);
  const LossDifference difference = compare_losses({2.3, 2.1001, 1.95}, losses, 1e-5);
  CHECK(difference.first_step == 2);
  CHECK(difference.found == 2.1001);
  CHECK(difference.largest == Approx(0.05));
  CHECK(compare_losses({2.3, std::numeric_limits<double>::quiet_NaN(), 1.9}, losses, 1e9).first_step == 2);
  CHECK_THROWS_AS(compare_losses({2.3, 2.1}, losses, 1), Error);
  CHECK_THROWS_AS(compare_losses({0, 0}, {0, 0}, 1), Error);
  CHECK_THROWS_AS(compare_losses({}, {}, 1), Error);
}

TEST_CASE("tour, verdict: the first step and tensor that differ are found") {
  for (const int64_t parting_at : {1, 2, 13, 20}) {
    const auto weights = [](double third) {
      return [third](int64_t step, int64_t from) {
        const float value = static_cast<float>(step) + (step >= from ? static_cast<float>(third) : 0);
        return NamedTensors{{"a", Tensor::full({2, 3}, static_cast<double>(step))}, {"b", Tensor::full({3}, value)}};
      };
    };
    const TensorDifference difference = find_parting([&](int64_t step) { return weights(0.5)(step, parting_at); },
                                                     [&](int64_t step) { return weights(0)(step, parting_at); }, 20, 1e-5);
    CHECK(difference.step == parting_at);
    CHECK(difference.name == "b");
    CHECK(difference.largest == Approx(0.5));
  }
  const WeightsAfter same = [](int64_t) { return NamedTensors{{"a", Tensor::full({2}, 1)}}; };
  CHECK(find_parting(same, same, 20, 1e-5).step == 0);
  const WeightsAfter nan = [](int64_t) { return NamedTensors{{"a", Tensor::full({2}, std::numeric_limits<double>::quiet_NaN())}}; };
  CHECK(find_parting(nan, same, 20, 1e-5).name == "a");
  const WeightsAfter other = [](int64_t) { return NamedTensors{{"c", Tensor::full({2}, 1)}}; };
  CHECK_THROWS_AS(find_parting(other, same, 20, 1e-5), Error);
}
