// Chapter 01's program as a user meets it: what it prints, how it fails, and that a resumed run is the run that was not interrupted.
#include "common/core/file.h"
#include "common/data/image.h"
#include "tests/support/catch.h"
#include "tests/support/run_program.h"
#include "tests/support/small_data.h"

using namespace miniddp;
using namespace miniddp::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

ProgramResult run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MINIDDP_BINARY_DIR "/bin/01_single_device");
  arguments.insert(arguments.end(), {"--threads", "1"});
  return run_program(arguments, std::chrono::seconds(100));
}

}  // namespace

TEST_CASE("chapter 01: log lines, one CSV row for each step, the whole test set counted") {
  const SmallData data;
  const ProgramResult result =
      run({"--data", data.path(), "--epochs", "2", "--batch-size", "60", "--log-interval", "2", "--loss-csv", data.file("loss.csv")});
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  const std::vector<std::string> lines = split_lines(result.output);
  REQUIRE(lines.size() == 10);  // two log lines and, between empty ones, the test line, each epoch
  CHECK_THAT(lines[0], ContainsSubstring("Train Epoch: 1 [0/200 (0%)]\tLoss: "));
  CHECK_THAT(lines[1], ContainsSubstring("Train Epoch: 1 [120/200 (50%)]\tLoss: "));
  CHECK_THAT(lines[3], ContainsSubstring("Test set: Average loss: ") && ContainsSubstring("/90 ("));
  CHECK_THAT(result.errors, ContainsSubstring("Devices: cpu:0 (1 thread each)"));
  const std::vector<std::string> csv = split_lines(read_file(data.file("loss.csv"), "the losses"));
  REQUIRE(csv.size() == 9);
  CHECK(csv[0] == "step,loss");
  CHECK_THAT(csv[1], Catch::Matchers::StartsWith("1,"));
  CHECK_THAT(csv[8], Catch::Matchers::StartsWith("8,"));
}

TEST_CASE("chapter 01: a resumed run gives bit for bit the losses of one that was not interrupted") {
  const SmallData data;
  // Dropout on, so that the generator's state counts; interrupted in the middle of an epoch, at its end, and just before it.
  for (const std::string model : {"article_a", "article_b"}) {
    const std::vector<std::string> common{"--data", data.path(), "--model", model, "--epochs", "3", "--batch-size", "60", "--quiet"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), common.begin(), common.end());
      const ProgramResult result = run(more);
      INFO(result.summary());
      REQUIRE(result.exit_code == 0);
    };
    with({"--loss-csv", data.file("whole.csv")});
    const std::vector<std::string> whole = split_lines(read_file(data.file("whole.csv"), "the losses"));
    REQUIRE(whole.size() == 13);
    for (int stop : {1, 4, 6, 11}) {
      INFO(model << " stopped after step " << stop);
      with({"--max-steps", std::to_string(stop), "--save", data.file("x.safetensors")});
      with({"--resume", data.file("x.safetensors"), "--loss-csv", data.file("rest.csv")});
      const std::vector<std::string> rest = split_lines(read_file(data.file("rest.csv"), "the losses"));
      REQUIRE(rest.size() == whole.size() - static_cast<size_t>(stop));
      for (size_t i = 1; i < rest.size(); ++i) CHECK(rest[i] == whole[i + static_cast<size_t>(stop)]);
    }
    with({"--save", data.file("x.safetensors")});
    std::vector<std::string> finished = common;
    finished.insert(finished.end(), {"--resume", data.file("x.safetensors")});
    const ProgramResult result = run(finished);
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.errors, ContainsSubstring("nothing is left to train"));
  }
}

TEST_CASE("chapter 01: wrong usage exits 2 and says what is wrong, errors exit 1") {
  const SmallData data;
  const auto fails = [&](std::vector<std::string> arguments, int exit_code, const std::string& message) {
    const ProgramResult result = run(arguments);
    INFO(result.summary());
    CHECK(result.exit_code == exit_code);
    CHECK_THAT(result.errors, ContainsSubstring("error: ") && ContainsSubstring(message));
  };
  fails({"--no-such-option"}, 2, "--no-such-option");
  fails({"--epochs", "0"}, 2, "--epochs");
  fails({"--epochs", "many"}, 2, "--epochs");
  fails({"--batch-size", "-1"}, 2, "--batch-size");
  fails({"--model", "article_c"}, 2, "article_b");
  fails({"--no-set-epoch"}, 2, "--sampler distributed");
  fails({"--devices", "2"}, 2, "one device");
  fails({"--devices", "gpu:0"}, 2, "cpu:1");
  fails({"--devices", "cpu:99"}, 1, "cpu:99");
  fails({"--data", data.file("nowhere")}, 1, "nowhere");
  fails({"--data", data.path(), "--resume", data.file("none.safetensors")}, 1, "none.safetensors");
  fails({"--data", data.path(), "--max-steps", "1", "--loss-csv", "/proc/nowhere/x.csv"}, 1, "/proc/nowhere");
  write_file(data.file("bad.safetensors"), "<html>not found</html>");
  fails({"--data", data.path(), "--resume", data.file("bad.safetensors")}, 1, "not a safetensors file");
}

TEST_CASE("chapter 01: --help explains and exits 0") {
  const ProgramResult result = run({"--help"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("--loss-csv") && ContainsSubstring("--resume"));
}

TEST_CASE("chapter 01: predicts a digit from a picture, and draws what it misreads") {
  const SmallData data;
  std::vector<uint8_t> picture(60 * 40, 250);  // dark ink on white: a one
  for (size_t row = 8; row < 52; ++row) {
    for (size_t col = 18; col < 23; ++col) picture[row * 40 + col] = 10;
  }
  write_png(data.file("one.png"), picture, 60, 40, 1);
  const std::vector<std::string> train{"--data", MINIDDP_SOURCE_DIR "/datasets/mnist", "--model", "article_a", "--max-steps", "150", "--quiet",
                                       "--save", data.file("a.safetensors")};
  REQUIRE(run(train).exit_code == 0);
  const ProgramResult result = run({"--data", MINIDDP_SOURCE_DIR "/datasets/mnist", "--model", "article_a", "--resume", data.file("a.safetensors"),
                                    "--predict", data.file("one.png"), "--misclassified", data.file("wrong")});
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("one.png: this is a 1"));
  CHECK_THAT(result.output, ContainsSubstring("of 10000 test images are misread"));
  CHECK(load_image(data.file("wrong/misclassified.png")).rows > 28);
  write_file(data.file("no.png"), "<html>");
  const ProgramResult bad = run({"--model", "article_a", "--resume", data.file("a.safetensors"), "--predict", data.file("no.png")});
  CHECK(bad.exit_code == 1);
  CHECK_THAT(bad.errors, ContainsSubstring("no.png"));
}
