// Ranks that die, throw, leave early or never come: every other rank ends in time, with an error that names
// the rank.
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "chapters/04_process_group/init_process_group.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

const std::vector<std::string> backends = {"gloo", "ring"};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Steps of an imitated training: some arithmetic, then an all-reduce. Returns what ended it and how long the
// last call took.
std::string train(ProcessGroup& group, int steps, const std::function<void(int step)>& each_step) {
  Tensor gradient = Tensor::ones({50'021});
  for (int step = 0; step < steps; ++step) {
    each_step(step);
    const auto start = Work::Clock::now();
    try {
      group.all_reduce(gradient, ReduceOp::avg)->wait();
    } catch (const Error& error) {
      return fmt::format("{:.3f} {}", std::chrono::duration<double>(Work::Clock::now() - start).count(),
                         error.what());
    }
  }
  return "trained";
}

// Survivors of a death at step 5 of rank `victim`. Ranks hold a ProcessGroupGuard: rank 0's store, and what it knows,
// outlives rank 0's own failure until the others have left.
void check_survivors(const std::vector<RankOutcome>& outcomes, int victim, const std::string& expected, double limit = 2) {
  INFO(describe(outcomes));
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (static_cast<int>(rank) == victim) continue;
    CHECK(outcomes[rank].returned);
    CHECK(contains(outcomes[rank].text, expected));
    CHECK(std::atof(outcomes[rank].text.c_str()) < limit);
  }
}

}  // namespace

TEST_CASE("fault: kill -9 of any rank in the middle of training, every survivor names it within 2 s") {
  for (const std::string& backend : backends) {
    for (int victim : {0, 1, 3}) {
      const auto outcomes = run_ranks(4, [&](int rank) {
        const ProcessGroupGuard guard({.backend = backend});
        return train(default_process_group(), 1000, [&](int step) {
          if (rank == victim && step == 5) kill(getpid(), SIGKILL);
        });
      });
      CHECK(outcomes[static_cast<size_t>(victim)].signal == SIGKILL);
      INFO(backend);
      // With rank 0 goes the store, so the survivors conclude it.
      check_survivors(outcomes, victim,
                      victim == 0 ? "Rank 0 has probably ended"
                                  : fmt::format("rank {} has ended without saying goodbye", victim));
    }
  }
}

TEST_CASE("fault: kill -9 inside an all-reduce") {
  for (const std::string& backend : backends) {
    const auto outcomes = run_ranks(3, [&](int rank) {
      const ProcessGroupGuard guard({.backend = backend});
      std::thread killer;
      if (rank == 2) {
        killer = std::thread([] {
          std::this_thread::sleep_for(Milliseconds(300));
          kill(getpid(), SIGKILL);
        });
      }
      // 40 MB take a while: the death hits one of them.
      Tensor large = Tensor::ones({10'000'000});
      double seconds = 0;
      try {
        while (true) {
          const auto start = Work::Clock::now();
          const WorkPtr work = default_process_group().all_reduce(large);
          try {
            work->wait();
          } catch (...) {
            seconds = std::chrono::duration<double>(Work::Clock::now() - start).count();
            throw;
          }
        }
      } catch (const Error& error) {
        return fmt::format("{:.3f} {}", seconds, error.what());
      }
    });
    CHECK(outcomes[2].signal == SIGKILL);
    check_survivors(outcomes, 2, "rank 2 has ended without saying goodbye");
  }
}

TEST_CASE("fault: a rank that stands still is not alive for ever: the time limit ends the wait") {
  const auto outcomes = run_ranks(
      2,
      [&](int rank) {
        const ProcessGroupGuard guard({.backend = "ring", .timeout = Milliseconds(1500)});
        return train(default_process_group(), 10, [&](int step) {
          if (rank == 1 && step == 3) raise(SIGSTOP);
        });
      },
      std::chrono::seconds(12));
  INFO(describe(outcomes));
  CHECK(outcomes[0].returned);
  CHECK(contains(outcomes[0].text, "timed out after 1500ms waiting for data of rank 1"));
  CHECK(outcomes[1].signal == SIGKILL);  // by the test's own limit
}

TEST_CASE("fault: a rank that throws, and one that returns early, are named by the others") {
  for (const std::string& backend : backends) {
    for (const bool throws : {true, false}) {
      const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
        const ProcessGroupGuard guard({.backend = backend});
        if (rank == 1 && !throws) return train(default_process_group(), 5, [](int) {});
        return train(default_process_group(), 1000, [&](int step) {
          if (rank == 1 && step == 5) throw Error("boom in step 5");
        });
      });
      INFO(backend);
      CHECK(outcomes[1].returned != throws);
      // A rank that is done stays for a second, in case others still need its last answer.
      check_survivors(outcomes, 1, "rank 1", throws ? 2 : 3);
    }
  }
}

TEST_CASE("fault: a rank that dies before, while and after joining") {
  // 0: at once; 1: after the store is there; 2: right after init.
  for (const std::string& backend : backends) {
    for (int moment : {0, 1, 2}) {
      const auto outcomes = run_ranks(
          3,
          [&](int rank) -> std::string {
            if (rank == 1 && moment == 0) kill(getpid(), SIGKILL);
            if (rank == 1 && moment == 1) {
              const auto store = rendezvous(env_rendezvous(), Milliseconds(10'000));
              kill(getpid(), SIGKILL);
            }
            const ProcessGroupGuard guard({.backend = backend, .rendezvous_timeout = Milliseconds(3000)});
            if (rank == 1) kill(getpid(), SIGKILL);
            return train(default_process_group(), 2, [](int) {});
          },
          std::chrono::seconds(20));
      INFO(backend << ", moment " << moment << "\n" << describe(outcomes));
      CHECK(outcomes[1].signal == SIGKILL);
      for (int survivor : {0, 2}) {
        const std::string& text = outcomes[static_cast<size_t>(survivor)].text;
        CHECK(outcomes[static_cast<size_t>(survivor)].signal == 0);
        CHECK(contains(text, moment == 0 ? "missing: 1" : "rank 1 has ended without saying goodbye"));
        CHECK(outcomes[static_cast<size_t>(survivor)].seconds < (moment == 0 ? 10 : 3));
      }
    }
  }
}

TEST_CASE("fault: works that are still queued when a group is destroyed fail, and nothing hangs") {
  for (const std::string& backend : backends) {
    const auto results = run_ranks_all(2, [&](int rank) {
      std::vector<WorkPtr> works;
      {
        const ProcessGroupGuard guard({.backend = backend});
        if (rank == 0) {
          for (int i = 0; i < 5; ++i)
            works.push_back(default_process_group().all_reduce(Tensor::ones({1000})));
        } else {
          std::this_thread::sleep_for(Milliseconds(300));
        }
      }
      int failed = 0;
      for (const WorkPtr& work : works) {
        try {
          work->wait();
        } catch (const Error&) {
          ++failed;
        }
      }
      return std::to_string(failed);
    });
    CHECK(results[0] == "5");
  }
}
