// Chapter 01's program in the hands of a clumsy user: every wrong value has a clear answer, nothing hangs, nothing is lost.
#include <sys/stat.h>

#include "common/data/image.h"
#include "tests/support/catch.h"
#include "tests/support/run_program.h"
#include "tests/support/small_data.h"

using namespace miniddp;
using namespace miniddp::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string program = MINIDDP_BINARY_DIR "/bin/01_single_device";

ProgramResult run(const SmallData& data, std::vector<std::string> arguments, const std::map<std::string, std::string>& environment = {}) {
  const std::vector<std::string> always{program, "--data", data.path(), "--model", "article_a", "--threads", "1"};
  arguments.insert(arguments.begin(), always.begin(), always.end());
  return run_program(arguments, std::chrono::seconds(100), environment);
}

// Runs `command` in a shell; $P is the program with its data, $D the directory.
ProgramResult shell(const SmallData& data, const std::string& command) {
  const std::string p = program + " --data " + data.path() + " --model article_a --threads 1";
  return run_program({"sh", "-c", "cd $D; " + command}, std::chrono::seconds(100), {{"P", p}, {"D", data.path()}});
}

void fails(const ProgramResult& result, int exit_code, const std::string& message) {
  INFO(result.summary());
  CHECK(result.exit_code == exit_code);
  CHECK_FALSE(result.timed_out);
  CHECK_THAT(result.errors, ContainsSubstring("error: ") && ContainsSubstring(message));
  CHECK(result.errors.size() < 1000);  // no wall of digits
}

}  // namespace

TEST_CASE("clumsy user: numbers that are none, too small, too large") {
  const SmallData data;
  for (const std::string option : {"--epochs", "--max-steps", "--batch-size", "--test-batch-size", "--threads", "--log-interval"}) {
    for (const std::string value : {"0", "-1", "nan", "1.5", "99999999999999999999", "0x10", ""}) {
      INFO(option << " '" << value << "'");
      fails(run(data, {option, value}), 2, option + ": expected a whole number from 1 to ");
    }
  }
  for (const std::string option : {"--lr", "--momentum"}) {
    for (const std::string value : {"-1", "nan", "inf", "1e400", "0.1x"}) {
      INFO(option << " " << value);
      fails(run(data, {option + "=" + value}), 2, option + ": expected a number of at least 0, found \"" + value);
    }
  }
  fails(run(data, {"--seed", "18446744073709551616"}), 2, "--seed: expected a whole number from -2^63 to 2^64 - 1");
  fails(run(data, {"--graph", "--device", "cpu"}), 2, "--device cuda");
}

TEST_CASE("clumsy user: numbers are decimal, a seed may be negative") {
  const SmallData data;
  const auto losses = [&](const std::vector<std::string>& options) {
    std::vector<std::string> all{"--max-steps", "2", "--quiet", "--loss-csv", data.file("l.csv")};
    all.insert(all.end(), options.begin(), options.end());
    const ProgramResult result = run(data, all);
    INFO(result.summary());
    REQUIRE(result.exit_code == 0);
    return read_file(data.file("l.csv"), "the losses");
  };
  CHECK(losses({"--batch-size", "010"}) == losses({"--batch-size", "10"}));
  CHECK(losses({"--seed", "-1"}) == losses({"--seed", "18446744073709551615"}));
  CHECK(losses({"--seed", "-1"}) != losses({"--seed", "1"}));
}

TEST_CASE("clumsy user: an empty name is no name") {
  const SmallData data;
  for (const std::string option : {"--save", "--resume", "--loss-csv", "--trace", "--data", "--devices", "--predict", "--misclassified"}) {
    const std::vector<std::string> arguments{program, option, "", "--max-steps", "1"};
    fails(run_program(arguments, std::chrono::seconds(100)), 2, option + ": expected a name");
  }
}

TEST_CASE("clumsy user: one file for two results") {
  const SmallData data;
  const std::string file = data.file("x"), other = data.path() + "/./x";
  fails(run(data, {"--save", file, "--loss-csv", other}), 2, "--save and --loss-csv name the same file");
  fails(run(data, {"--save", file, "--trace", other}), 2, "--save and --trace");
  fails(run(data, {"--loss-csv", file, "--trace", other}), 2, "--loss-csv and --trace");
  fails(run(data, {"--resume", file, "--loss-csv", other}), 2, "--loss-csv and --resume");
  write_file(data.file("real"), "");
  std::filesystem::create_symlink("real", data.file("link"));
  std::filesystem::create_hard_link(data.file("real"), data.file("twin"));
  fails(run(data, {"--save", data.file("link"), "--trace", data.file("real")}), 2, "--save and --trace");
  fails(run(data, {"--save", data.file("twin"), "--trace", data.file("real")}), 2, "--save and --trace");
}

TEST_CASE("clumsy user: a result that cannot be written is refused before the training") {
  const SmallData data;
  std::filesystem::create_directory(data.file("folder"));
  REQUIRE(::mkfifo(data.file("pipe").c_str(), 0600) == 0);
  write_file(data.file("file"), "kept");
  for (const std::string option : {"--save", "--loss-csv", "--trace", "--misclassified"}) {
    for (const std::string name : {"folder", "pipe", "file/below"}) {
      if (option == "--misclassified" && name == "folder") continue;
      INFO(option << " " << name);
      // More epochs than the time limit has room for.
      fails(run(data, {"--epochs", "1000000", "--quiet", option, data.file(name)}), 1, name);
    }
  }
  // In a group of processes, even before the others are met: no rank 1 is needed to hear of it.
  const std::vector<std::string> rank_0{MINIDDP_BINARY_DIR "/bin/05_distributed_data_parallel", "--save", data.file("pipe")};
  fails(run_program(rank_0, std::chrono::seconds(20),
                    {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}}), 1, "pipe: expected the name of a file");
  CHECK(std::filesystem::is_fifo(data.file("pipe")));
  CHECK(read_file(data.file("file"), "a test") == "kept");
}

TEST_CASE("clumsy user: pictures are looked at before the training, diverged networks have no answer") {
  const SmallData data;
  fails(run(data, {"--epochs", "1000000", "--predict", data.file("none.png")}), 1, "none.png");
  write_png(data.file("blank.png"), std::vector<uint8_t>(900, 200), 30, 30, 1);
  fails(run(data, {"--epochs", "1000000", "--predict", data.file("blank.png")}), 1, "blank");
  fails(run(data, {"--lr", "1e30", "--max-steps", "3", "--quiet", "--misclassified", data.path()}), 1, "diverged");
  CHECK_FALSE(std::filesystem::exists(data.file("misclassified.png")));

  REQUIRE(run(data, {"--max-steps", "1", "--quiet", "--save", data.file("a")}).exit_code == 0);
  fails(run(data, {"--resume", data.file("a"), "--misclassified", data.path(), "--save", data.file("b")}), 2, "leave --save");
  const std::vector<std::string> other_model{program, "--data", data.path(), "--resume", data.file("a"), "--misclassified", data.path()};
  fails(run_program(other_model, std::chrono::seconds(100)), 1, "(see --model)");
}

TEST_CASE("clumsy user: standard streams that are closed or full") {
  const SmallData data;
  const std::string command = "$P --max-steps 3 --log-interval 1 --profile --loss-csv l.csv --save s ";
  for (const std::string redirection : {">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"}) {
    INFO(redirection);
    const ProgramResult result = shell(data, command + redirection);
    INFO(result.summary());
    CHECK(result.exit_code == 0);
    CHECK(split_lines(read_file(data.file("l.csv"), "the losses")).size() == 4);
    std::filesystem::remove(data.file("l.csv"));
  }
  fails(shell(data, command + ">/dev/full"), 1, "cannot write to standard output: No space left");
  fails(shell(data, "$P --help >/dev/full"), 1, "cannot write to standard output");
  CHECK(shell(data, "$P --lr nan 2>/dev/full").exit_code == 2);
  CHECK(shell(data, "$P --resume none 2>&-").exit_code == 1);
}

TEST_CASE("clumsy user: OMP_NUM_THREADS may hold anything") {
  const SmallData data;
  const std::vector<std::string> arguments{program, "--data", data.path(), "--model", "article_a", "--max-steps", "1", "--quiet"};
  for (const std::string threads : {"0", "-3", "many", "2,1", "100000", "99999999999"}) {
    const ProgramResult result = run_program(arguments, std::chrono::seconds(100), {{"OMP_NUM_THREADS", threads}});
    INFO(threads << "\n" << result.summary());
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("clumsy user: too little memory ends the program") {
#ifdef __SANITIZE_ADDRESS__
  SUCCEED("the sanitizer takes all addresses for itself");
#else
  const SmallData data;
  const ProgramResult result = shell(data, "ulimit -v 100000; exec $P --max-steps 2 --batch-size 200 --model article_b");
  INFO(result.summary());
  CHECK_FALSE(result.timed_out);
  CHECK(result.exit_code != 0);
#endif
}

TEST_CASE("clumsy user: a signal ends the run after the step, with checkpoint and losses") {
  const SmallData data;
  const std::string options = "--epochs 1000000 --batch-size 30 --log-interval 1 ";
  for (const std::string signal : {"TERM", "HUP"}) {
    INFO(signal);
    const ProgramResult result = shell(data, "$P " + options + "--save s --loss-csv l.csv >out 2>err & for i in $(seq 600); do [ $(wc -l <out) -lt 20 ] || break; sleep 0.05; done; kill -" +
                                                 signal + " $!; wait $!; status=$?; cat err >&2; exit $status");
    INFO(result.summary());
    CHECK(result.exit_code == (signal == "TERM" ? 143 : 129));
    CHECK_THAT(result.errors, ContainsSubstring("Interrupted after step") && ContainsSubstring("--resume s"));
    const size_t rows = split_lines(read_file(data.file("l.csv"), "the losses")).size();
    CHECK(rows > 10);
    REQUIRE(shell(data, "$P " + options + "--quiet --resume s --max-steps " + std::to_string(rows + 9) + " --loss-csv rest.csv").exit_code == 0);
    REQUIRE(shell(data, "$P " + options + "--quiet --max-steps " + std::to_string(rows + 9) + " --loss-csv whole.csv").exit_code == 0);
    const auto rest = split_lines(read_file(data.file("rest.csv"), "the losses")), whole = split_lines(read_file(data.file("whole.csv"), "the losses"));
    REQUIRE(rest.size() == 11);
    for (size_t i = 1; i < rest.size(); ++i) CHECK(rest[i] == whole[rows + i - 1]);
  }
}

TEST_CASE("clumsy user: the losses of whole epochs survive whatever ends the run") {
  const SmallData data;
  const ProgramResult result =
      shell(data, "$P --epochs 1000000 --quiet --loss-csv l.csv & for i in $(seq 600); do [ ! -e l.csv ] || break; sleep 0.05; done; kill -KILL $!; wait $!");
  CHECK(result.exit_code == 137);
  CHECK(split_lines(read_file(data.file("l.csv"), "the losses")).size() >= 5);
}
