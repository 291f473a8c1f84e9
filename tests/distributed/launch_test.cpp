// What `launch` gives its ranks and what it makes of their output and exit codes.
#include <algorithm>

#include "common/core/error.h"
#include "common/launch/launch.h"
#include "common/launch/line_splitter.h"
#include "tests/support/catch.h"
#include "tests/support/run_program.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

const std::string launcher = MINIDDP_BINARY_DIR "/bin/launch";

// Starts a shell script as `nproc` ranks.
ProgramResult launch_script(int nproc, const std::string& script, std::vector<std::string> options = {},
                            const std::map<std::string, std::string>& environment = {}) {
  std::vector<std::string> arguments = {launcher, "--nproc", std::to_string(nproc)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"--", "sh", "-c", script});
  return run_program(arguments, std::chrono::seconds(60), environment);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("launch: every rank gets its variables, and every line its prefix") {
  const auto result = launch_script(3,
                                    "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR "
                                    "$MASTER_PORT $MINIDDP_RUN_ID; printf 'no end'; echo bad >&2");
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  std::vector<std::string> lines = split_lines(result.output);
  REQUIRE(lines.size() == 6);
  std::sort(lines.begin(), lines.end());
  std::string rest;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string start = fmt::format("[rank {0}] {0}/3 {0}/3 127.0.0.1 ", rank);
    const std::string& line = lines[static_cast<size_t>(2 * rank)];
    CHECK(line.starts_with(start));
    if (rank == 0) rest = line.substr(start.size());
    CHECK(line.substr(start.size()) == rest);  // one port and one run id for all
    CHECK(lines[static_cast<size_t>(2 * rank + 1)] == fmt::format("[rank {}] no end", rank));
    CHECK(contains(result.errors, fmt::format("[rank {}] bad\n", rank)));
  }
  CHECK(rest.size() > 16);
}

TEST_CASE("launch: threads are shared out and printed, and the user's own number is kept") {
  const auto chosen = launch_script(2, "echo threads=$OMP_NUM_THREADS", {}, {{"OMP_NUM_THREADS", ""}});
  CHECK(contains(chosen.errors, "OMP_NUM_THREADS="));
  CHECK(!contains(chosen.output, "threads=\n"));
  const auto kept =
      launch_script(2, "echo threads=$OMP_NUM_THREADS", {"--no-prefix"}, {{"OMP_NUM_THREADS", "7"}});
  CHECK(kept.output == "threads=7\nthreads=7\n");
  CHECK(contains(kept.errors, "OMP_NUM_THREADS=7 as you set it"));
}

TEST_CASE("launch: rank 0 alone inherits the store's socket, and the port is never free") {
  // Whoever tries to listen on the port finds it taken, from before the first rank runs.
  const auto result = launch_script(
      2, "echo $RANK fd=$MINIDDP_STORE_FD; if [ $RANK = 0 ]; then ls -l /proc/self/fd/$MINIDDP_STORE_FD; fi",
      {"--no-prefix"});
  INFO(result.output);
  CHECK(contains(result.output, "1 fd=\n"));
  CHECK(contains(result.output, "socket:["));
  const auto given =
      launch_script(1, "echo $MASTER_PORT fd=$MINIDDP_STORE_FD", {"--no-prefix", "--master-port", "12345"});
  CHECK(given.output == "12345 fd=\n");
}

TEST_CASE("launch: the first failure's exit code, its name and its last lines") {
  const auto result = launch_script(
      3,
      "echo line of $RANK; if [ $RANK = 1 ]; then sleep 0.2; echo 'error: boom' >&2; exit 7; fi; sleep 100");
  INFO(result.summary());
  CHECK(result.exit_code == 7);
  CHECK(contains(result.errors, "launch: rank 1 failed first: exit code 7"));
  CHECK(contains(result.errors, "launch: the last lines of rank 1:\n    line of 1\n    error: boom\n"));
}

TEST_CASE("launch: a rank killed by a signal gives 128 + signal") {
  const auto result = launch_script(2, "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 100");
  INFO(result.summary());
  CHECK(result.exit_code == 137);
  CHECK(contains(result.errors, "launch: rank 1 failed first: killed by signal 9 (Killed)"));
}

TEST_CASE("launch: a rank that ended early with 0 is mentioned beside the one that failed") {
  const auto result = launch_script(2, "if [ $RANK = 1 ]; then exit 0; fi; sleep 0.5; exit 3");
  CHECK(result.exit_code == 3);
  CHECK(contains(result.errors, "launch: rank 1 had ended"));
}

TEST_CASE("launch: output without end of a rank does not hide the others") {
  const auto result =
      launch_script(2, "if [ $RANK = 0 ]; then head -c 3000000 /dev/zero | tr '\\0' x; else echo here; fi");
  CHECK(result.exit_code == 0);
  CHECK(contains(result.output, "[rank 1] here\n"));
  CHECK(std::count(result.output.begin(), result.output.end(), 'x') == 3000000);
}

TEST_CASE("launch: wrong command lines exit 2, a program that does not exist 127") {
  const auto run = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), launcher);
    return run_program(arguments, std::chrono::seconds(30));
  };
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"--nproc", "0", "true"},
                                             {"--nproc", "x", "true"},
                                             {"--nproc", "2"},
                                             {"--nproc"},
                                             {"--what", "true"},
                                             {"--nproc", "2", "--grace", "-1", "true"}}) {
    const auto result = run(arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.errors.starts_with("error: "));
  }
  const auto missing = run({"--nproc", "2", "no-such-program"});
  CHECK(missing.exit_code == 127);
  CHECK(contains(missing.errors, "error: cannot run no-such-program: No such file or directory"));
  const auto help = run({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(contains(help.output, "--nproc N"));
}

TEST_CASE("launch: pieces of output become whole lines") {
  LineSplitter splitter;
  CHECK(splitter.add("ab", "> ").empty());
  CHECK(splitter.add("c\nd\n\ne", "> ") == "> abc\n> d\n> \n");
  CHECK(splitter.finish("> ") == "> e\n");
  CHECK(splitter.finish("> ").empty());
  const std::string longest(LineSplitter::longest_line + 5, 'x');
  CHECK(splitter.add(longest, "") == std::string(LineSplitter::longest_line, 'x') + "\n");
  LastLines last;
  for (int i = 0; i < 100; ++i) last.add(fmt::format("{}\n", i));
  last.add("end");
  CHECK(last.lines().size() == LastLines::count);
  CHECK(last.lines().back() == "end");
}
