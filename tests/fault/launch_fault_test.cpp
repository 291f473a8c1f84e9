// The launcher when things go wrong: whatever ends, however it ends, no process stays behind.
#include <signal.h>

#include <fstream>

#include "chapters/04_process_group/init_process_group.h"
#include "tests/support/catch.h"
#include "tests/support/processes.h"
#include "tests/support/run_program.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

const std::string launcher = MINIDDP_BINARY_DIR "/bin/launch";
const std::string program = MINIDDP_BINARY_DIR "/bin/04_process_group";

std::vector<std::string> script(int nproc, const std::string& text, std::vector<std::string> options = {}) {
  std::vector<std::string> arguments = {launcher, "--nproc", std::to_string(nproc)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"--", "sh", "-c", text});
  return arguments;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A rank with a child of its own and one that hides in a session of its own; both would sleep on.
const std::string family = "sleep 300 & setsid sleep 300 & echo ready; wait";

}  // namespace

TEST_CASE("fault: kill -9 of the launcher leaves no rank, no grandchild, no hidden session") {
  BackgroundProgram run(script(2, family, {"--grace", "1"}));
  REQUIRE(run.wait_for_output("[rank 0] ready"));
  REQUIRE(run.wait_for_output("[rank 1] ready"));
  CHECK(run.processes().size() >= 8);  // launcher, supervisor, two ranks with two children each
  run.send_signal(SIGKILL);
  CHECK(run.wait() == 137);
  CHECK(run.wait_until_gone());
}

TEST_CASE("fault: kill -9 of the launcher ends ranks that ignore SIGTERM too") {
  BackgroundProgram run(
      script(2, "trap '' TERM INT HUP; echo ready; while true; do sleep 0.1; done", {"--grace", "0.5"}));
  REQUIRE(run.wait_for_output("[rank 1] ready"));
  run.send_signal(SIGKILL);
  run.wait();
  CHECK(run.wait_until_gone());
}

TEST_CASE("fault: kill -9 of the supervisor ends everything, with its own exit code") {
  BackgroundProgram run(script(2, family));
  REQUIRE(run.wait_for_output("[rank 0] ready"));
  REQUIRE(run.wait_for_output("[rank 1] ready"));
  // The supervisor is the launcher's only child.
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", run.pid()));
  pid_t supervisor = 0;
  children >> supervisor;
  REQUIRE(supervisor > 0);
  kill(supervisor, SIGKILL);
  CHECK(run.wait() == 137);
  CHECK(run.wait_until_gone());
}

TEST_CASE("fault: Ctrl-C and SIGTERM end all ranks with 128 + signal") {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    BackgroundProgram run(script(3, family));
    REQUIRE(run.wait_for_output("[rank 2] ready"));
    run.send_signal(signal);
    CHECK(run.wait() == 128 + signal);
    CHECK(run.wait_until_gone());
  }
}

TEST_CASE("fault: a second Ctrl-C does not wait for the grace to end") {
  BackgroundProgram run(
      script(2, "trap '' TERM INT; echo ready; while true; do sleep 0.1; done", {"--grace", "300"}));
  REQUIRE(run.wait_for_output("[rank 1] ready"));
  run.send_signal(SIGINT);
  REQUIRE(run.wait_for_output("received"));
  run.send_signal(SIGINT);
  CHECK(run.wait(std::chrono::seconds(20)) == 130);
  CHECK(run.wait_until_gone());
}

TEST_CASE("fault: after the first failure the others get SIGTERM, then SIGKILL") {
  BackgroundProgram run(
      script(2, "trap '' TERM; if [ $RANK = 1 ]; then sleep 0.5; exit 5; fi; while true; do sleep 0.1; done",
             {"--grace", "0.3"}));
  CHECK(run.wait() == 5);
  CHECK(contains(run.output(), "rank 0 did not end within 0.3 s of SIGTERM: killing it"));
  CHECK(contains(run.output(), "launch: rank 1 failed first: exit code 5"));
  CHECK(run.wait_until_gone());
}

TEST_CASE("fault: the launch's own time limit") {
  BackgroundProgram run(script(2, family, {"--timeout", "0.5"}));
  CHECK(run.wait() == 124);
  CHECK(run.wait_until_gone());
}

TEST_CASE("fault: a daemon left by a rank that succeeded is ended with the launch") {
  BackgroundProgram run(script(2, "setsid sleep 300 & echo done"));
  CHECK(run.wait() == 0);
  CHECK(run.wait_until_gone(std::chrono::seconds(2)));
}

TEST_CASE("fault: a rank of the chapter's program that is killed is named first") {
  // Enough repetitions to be in the middle of an all-reduce; the shell becomes the program, so $$ is the
  // rank.
  BackgroundProgram run(
      script(3, "if [ $RANK = 1 ]; then (sleep 1; kill -9 $$) & fi; exec " + program + " --repeats 100000"));
  CHECK(run.wait(std::chrono::seconds(40)) == 137);
  INFO(run.output());
  CHECK(contains(run.output(), "launch: rank 1 failed first: killed by signal 9"));
  CHECK(run.wait_until_gone());
}

TEST_CASE("fault: two runs at once from the same command do not meet") {
  const std::vector<std::string> command = {launcher,  "--nproc", "2",         program,
                                            "--numel", "1009",    "--repeats", "50"};
  BackgroundProgram first(command), second(command);
  CHECK(first.wait() == 0);
  CHECK(second.wait() == 0);
  for (const BackgroundProgram* run : {&first, &second}) {
    CHECK(contains(run->output(), "[rank 1] I am rank 1 of 2"));
    CHECK(contains(run->output(), "[rank 0] all_reduce   before  1.0   mean   1.5"));
  }
}

TEST_CASE("fault: a port that is taken ends the run at once, whoever has it") {
  const Socket taken = listen_on("127.0.0.1", 0);
  BackgroundProgram run(
      {launcher, "--nproc", "2", "--master-port", std::to_string(port_of(taken.fd())), program});
  CHECK(run.wait() == 1);
  CHECK(contains(run.output(), "error: The server socket has failed to listen on 127.0.0.1"));
  CHECK(contains(run.output(), "launch: rank 0 failed first: exit code 1"));
  CHECK(run.wait_until_gone());
}

TEST_CASE("fault: a rank that never joins is named when the time is up") {
  // MINIDDP programs wait 60 s by default; the store alone is asked here, with a limit of its own.
  TcpStoreOptions options;
  options.is_server = true;
  options.world_size = 3;
  TcpStore store(options);
  store.join(0, 3);
  const auto other = std::static_pointer_cast<TcpStore>(store.clone());
  other->join(2, 3);
  try {
    store.wait_all_joined(Milliseconds(300));
    FAIL("it is complete without rank 1");
  } catch (const TimeoutError& error) {
    CHECK(contains(error.what(), "2/3 ranks joined: 0, 2; missing: 1"));
  }
  store.set_linger(Milliseconds(100));
}
