// The catalogue of mistakes: what finds each, and what does not. It guards the checks themselves, and shows which to use.
#include "tests/support/catch.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"

namespace miniddp::testing {
namespace {

enum class Build { plain, asan, tsan };

struct Case {
  const char* mistake;
  Build build;
  const char* order;
  const char* streams;
  const char* finds;  // part of the message; "" for a right result
};

std::string program_of(Build build) {
  switch (build) {
    case Build::plain:
      return MISTAKES_PLAIN;
    case Build::asan:
      return MISTAKES_ASAN;
    case Build::tsan:
      return MISTAKES_TSAN;
  }
  return "";
}

/// A build with sanitizers has only its own program: the others' cases are for the plain build.
void check_all(std::initializer_list<Case> cases) {
  int ran = 0;
  for (const Case& c : cases) {
    const std::string program = program_of(c.build);
    if (program.empty()) continue;
    ++ran;
    INFO(c.mistake << ", " << c.order << ", " << c.streams << ", " << program);
    const ProgramResult result = run_program({program, c.mistake}, std::chrono::seconds(100),
                                             {{"MINIDDP_EMULATOR_ORDER", c.order},
                                              {"MINIDDP_EMULATOR_STREAMS", c.streams},
                                              {"MINIDDP_EMULATOR_BLOCK_LIMIT", "20"},
                                              {"ASAN_OPTIONS", "detect_leaks=0"},
                                              {"TSAN_OPTIONS", "halt_on_error=1"}});
    INFO(result.summary());
    CHECK_FALSE(result.timed_out);
    if (std::string(c.finds).empty()) {
      CHECK(result.exit_code == 0);
    } else {
      CHECK(result.exit_code != 0);
      CHECK_THAT(result.errors, Catch::Matchers::ContainsSubstring(c.finds));
    }
  }
  if (ran == 0) SKIP_TEST("PLAIN_BUILD", "no case of this one is for a build with this sanitizer");
}

constexpr const char* race = "ThreadSanitizer: data race";
constexpr const char* wrong = "wrong: ";
constexpr const char* right = "";

}  // namespace

TEST_CASE("mistakes: right code is right in every order, and to the sanitizers") {
  for (const char* name : {"right/product", "right/sum", "right/left neighbour", "right/exchange in a warp", "right/count",
                           "right/two streams", "right/pinned memory", "right/allocation in a stream",
                           "right/free in a stream", "right/graph"})
    check_all({{name, Build::plain, "forward", "threads", right},
               {name, Build::plain, "reverse", "lazy", right},
               {name, Build::plain, "shuffle:1", "delay:1", right},
               {name, Build::plain, "shuffle:2", "eager", right},
               {name, Build::asan, "reverse", "lazy", right},
               {name, Build::tsan, "forward", "threads", right}});
}

TEST_CASE("mistakes: missing barriers") {
  check_all({{"product without the first barrier", Build::plain, "forward", "threads", wrong},
             {"product without the first barrier", Build::plain, "reverse", "threads", wrong},
             {"product without the first barrier", Build::tsan, "forward", "threads", race},
             {"product without the second barrier", Build::plain, "forward", "threads", wrong},
             {"product without the second barrier", Build::plain, "shuffle:1", "threads", wrong},
             {"product without the second barrier", Build::tsan, "forward", "threads", race},
             {"sum without a barrier", Build::plain, "forward", "threads", wrong},
             {"sum without a barrier", Build::tsan, "forward", "threads", race}});
}

TEST_CASE("mistakes: a missing barrier that only one direction of threads shows") {
  check_all({{"left neighbour without a barrier", Build::plain, "forward", "threads", right},
             {"left neighbour without a barrier", Build::plain, "reverse", "threads", wrong},
             {"left neighbour without a barrier", Build::plain, "shuffle:1", "threads", wrong},
             {"left neighbour without a barrier", Build::tsan, "forward", "threads", race}});
}

TEST_CASE("mistakes: a missing syncwarp") {
  check_all({{"exchange in a warp without syncwarp", Build::plain, "forward", "threads", wrong},
             {"exchange in a warp without syncwarp", Build::plain, "reverse", "threads", wrong},
             {"exchange in a warp without syncwarp", Build::tsan, "forward", "threads", race}});
}

TEST_CASE("mistakes: adding without an atomic is seen by the race detector alone") {
  check_all({{"count without an atomic", Build::plain, "forward", "eager", right},
             {"count without an atomic", Build::plain, "reverse", "eager", right},
             {"count without an atomic", Build::tsan, "forward", "threads", race}});
}

TEST_CASE("mistakes: barriers that not all threads reach") {
  check_all({{"barriers at two lines", Build::plain, "forward", "threads", "different __syncthreads()"},
             {"barriers at two lines", Build::plain, "shuffle:1", "eager", "different __syncthreads()"},
             {"barrier after some have returned", Build::plain, "forward", "threads", "while others have returned"},
             {"barrier after some have returned", Build::plain, "reverse", "threads", "kernel_mistakes.cu:"}});
}

TEST_CASE("mistakes: threads that wait for each other in a loop") {
  const std::string program = program_of(Build::plain);
  if (program.empty()) SKIP_TEST("PLAIN_BUILD", "a case for the build without sanitizers");
  const ProgramResult result = run_program({program, "threads that wait for each other"}, std::chrono::seconds(60),
                                           {{"MINIDDP_EMULATOR_BLOCK_LIMIT", "1"}});
  INFO(result.summary());
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.errors, Catch::Matchers::ContainsSubstring("has run for 1 s"));
}

TEST_CASE("mistakes: steps past the end of memory") {
  check_all({{"a step past global memory", Build::asan, "forward", "threads", "heap-buffer-overflow"},
             {"a step past global memory", Build::asan, "forward", "threads", "kernel_mistakes.cu:"},
             {"a step past static shared memory", Build::asan, "forward", "threads", "global-buffer-overflow"},
             {"a step past dynamic shared memory", Build::asan, "forward", "threads", "heap-buffer-overflow"},
             {"a copy past the end", Build::plain, "forward", "threads", "cudaErrorInvalidValue"}});
}

TEST_CASE("mistakes: memory that nobody has set holds NaN") {
  check_all({{"unset shared memory", Build::plain, "forward", "threads", "4 are NaN"},
             {"unset shared memory", Build::plain, "shuffle:1", "threads", "4 are NaN"},
             {"unset global memory", Build::plain, "forward", "threads", "256 are NaN"}});
}

TEST_CASE("mistakes: shuffles with lanes that do not take part") {
  check_all({{"shuffle from an absent lane", Build::plain, "forward", "threads", "64 are NaN"},
             {"shuffle from an absent lane", Build::plain, "reverse", "threads", "64 are NaN"},
             {"lane outside its own mask", Build::plain, "forward", "threads", "not in its own mask"}});
}

TEST_CASE("mistakes: no wait between two streams") {
  check_all({{"no wait between two streams", Build::plain, "forward", "lazy", wrong},
             {"no wait between two streams", Build::plain, "forward", "eager", right},
             {"no wait between two streams", Build::tsan, "forward", "threads", race}});
}

TEST_CASE("mistakes: pinned memory read before the copy is done") {
  check_all({{"pinned memory read too early", Build::plain, "forward", "lazy", wrong},
             {"pinned memory read too early", Build::plain, "forward", "eager", right},
             {"pinned memory read too early", Build::tsan, "forward", "threads", race}});
}

TEST_CASE("mistakes: stream-ordered memory used outside of its life") {
  check_all({{"memory used before its allocation", Build::plain, "forward", "lazy", "4096 are NaN"},
             {"memory used before its allocation", Build::plain, "forward", "eager", right},
             {"memory freed while in use", Build::asan, "forward", "lazy", "heap-use-after-free"},
             {"memory freed while in use", Build::tsan, "forward", "threads", "ThreadSanitizer: "}});
}

TEST_CASE("mistakes: a branch of a graph that does not wait for what it reads") {
  check_all({{"no wait between two branches of a graph", Build::plain, "forward", "threads", right},
             {"no wait between two branches of a graph", Build::plain, "reverse", "threads", wrong},
             {"no wait between two branches of a graph", Build::tsan, "forward", "threads", race}});
}

TEST_CASE("mistakes: the host reads device memory") {
  check_all({{"host reads device memory", Build::plain, "forward", "threads", right},
             {"host reads device memory", Build::asan, "forward", "eager", "use-after-poison"},
             {"host reads device memory", Build::asan, "forward", "eager", "host_mistakes.cpp:"}});
}

TEST_CASE("mistakes: launches that cannot be right are refused") {
  check_all({{"an empty grid", Build::plain, "forward", "threads", "cudaErrorInvalidConfiguration"},
             {"launch into another device's stream", Build::plain, "forward", "threads", "cudaErrorInvalidResourceHandle"},
             {"another device's memory without peer access", Build::plain, "forward", "threads",
              "lies on device 1, and peer access is not enabled"},
             {"host memory passed to a kernel", Build::plain, "forward", "threads", "is not device memory"},
             {"freed memory passed to a kernel", Build::plain, "forward", "threads", "cudaErrorIllegalAddress"}});
}

}  // namespace miniddp::testing
