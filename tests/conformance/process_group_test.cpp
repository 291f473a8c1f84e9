// Cases 76-87 of the semantics: process group, rendezvous and store, against what torch.distributed does.
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "chapters/04_process_group/init_process_group.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

const std::vector<std::string> host_backends = {"gloo", "ring"};

// The elements as text, so that a rank's result can travel to the test.
std::string text_of(const Tensor& tensor) {
  std::string text;
  for (float value : tensor.to_vector<float>()) text += fmt::format("{} ", value);
  return text;
}

Tensor tensor_of(std::vector<float> values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// env:// with exactly these variables.
RankInfo read_env(std::map<std::string, std::string> variables) {
  return env_rendezvous(-1, -1, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

double seconds_since(Work::Clock::time_point start) {
  return std::chrono::duration<double>(Work::Clock::now() - start).count();
}

}  // namespace

TEST_CASE("process group: case 76, reductions of rank + 1 over 1 to 4 ranks") {
  for (const std::string& backend : host_backends) {
    for (int world = 1; world <= 4; ++world) {
      const auto results = run_ranks_all(world, [&](int rank) {
        const ProcessGroupGuard guard({.backend = backend});
        ProcessGroup& group = default_process_group();
        std::string found;
        for (ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
          Tensor tensor = tensor_of({static_cast<float>(rank + 1)});
          group.all_reduce(tensor, op)->wait();
          found += text_of(tensor);
        }
        const std::vector<int64_t> bits = {rank | int64_t(1) << 40};
        Tensor tensor = Tensor::from(bits, {1});
        group.all_reduce(tensor, ReduceOp::band)->wait();
        return found + (tensor.item<int64_t>() == int64_t(1) << 40 ? "band" : "");
      });
      double factorial = 1;
      for (int i = 2; i <= world; ++i) factorial *= i;
      const std::string expected =
          fmt::format("{} {} 1 {} {} band", world * (world + 1) / 2, factorial, world, (world + 1) / 2.0);
      for (const std::string& result : results) {
        INFO(backend << ", " << world << " ranks");
        CHECK(result == expected);
      }
    }
  }
}

TEST_CASE("process group: case 77, broadcast, all_gather, scatter, gather, send, recv, barrier") {
  for (const std::string& backend : host_backends) {
    const auto results = run_ranks_all(4, [&](int rank) {
      const ProcessGroupGuard guard({.backend = backend});
      ProcessGroup& group = default_process_group();
      const auto mine = static_cast<float>(rank);
      Tensor broadcast = tensor_of({mine + 100});
      group.broadcast(broadcast, 1)->wait();
      std::vector<Tensor> all;
      for (int i = 0; i < 4; ++i) all.push_back(tensor_of({-1}));
      group.all_gather(all, tensor_of({mine}))->wait();
      Tensor scattered = tensor_of({-1});
      std::vector<Tensor> dealt, gathered;
      for (int i = 0; i < 4 && rank == 0; ++i) {
        dealt.push_back(tensor_of({10.0f * static_cast<float>(i)}));
        gathered.push_back(tensor_of({-1}));
      }
      group.scatter(scattered, dealt, 0)->wait();
      group.gather(gathered, tensor_of({mine * mine}), 0)->wait();
      Tensor received = tensor_of({-1});
      if (rank == 0) group.send(tensor_of({7}), 1)->wait();
      if (rank == 1) group.recv(received, 0)->wait();
      group.barrier()->wait();
      std::string text = text_of(broadcast) + "| ";
      for (const Tensor& tensor : all) text += text_of(tensor);
      text += "| " + text_of(scattered) + "| ";
      for (const Tensor& tensor : gathered) text += text_of(tensor);
      return text + "| " + text_of(received);
    });
    INFO(backend);
    CHECK(results[0] == "101 | 0 1 2 3 | 0 | 0 1 4 9 | -1 ");
    CHECK(results[1] == "101 | 0 1 2 3 | 10 | | 7 ");
    CHECK(results[2] == "101 | 0 1 2 3 | 20 | | -1 ");
    CHECK(results[3] == "101 | 0 1 2 3 | 30 | | -1 ");
  }
}

TEST_CASE("process group: case 78, all_reduce is bitwise the same on every rank") {
  for (const std::string& backend : host_backends) {
    for (int world = 2; world <= 4; ++world) {
      const auto results = run_ranks_all(world, [&](int rank) {
        const ProcessGroupGuard guard({.backend = backend});
        const float values[] = {1e8f, 1, -1e8f, 0.1f};
        // Odd sizes, so that chunks differ and every place of every chunk is hit by cancellation.
        std::vector<float> mine(37);
        for (size_t i = 0; i < mine.size(); ++i) mine[i] = values[(i + static_cast<size_t>(rank)) % 4];
        Tensor tensor = tensor_of(mine);
        default_process_group().all_reduce(tensor)->wait();
        return text_of(tensor);
      });
      for (const std::string& result : results) CHECK(result == results[0]);
    }
  }
}

TEST_CASE("process group: case 79, missing and wrong variables, a second init, no init") {
  const std::string missing =
      "Error initializing torch.distributed using env:// rendezvous: environment variable ";
  const std::map<std::string, std::string> all = {
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    auto without = all, empty = all;
    without.erase(name);
    empty[name] = "";
    CHECK(message_of([&] { read_env(without); }).starts_with(missing + name + " expected, but not set"));
    CHECK(message_of([&] { read_env(empty); }).starts_with(missing + name + " expected, but not set"));
  }
  CHECK(message_of([&] { read_env({}); }).starts_with(missing + "RANK expected, but not set (start all ranks with "));
  const auto with = [&](const char* name, const char* value) {
    auto changed = all;
    changed[name] = value;
    return message_of([&] { read_env(changed); });
  };
  CHECK(with("MASTER_PORT", "70000") == "port must have value from 0 to 65535 but was 70000.");
  CHECK(contains(with("RANK", "x"), "invalid literal for int() with base 10: 'x'"));
  CHECK(contains(with("MASTER_PORT", "localhost"), "MASTER_PORT"));
  CHECK(read_env(all).master_ports == std::vector<int>{29500});

  CHECK(contains(message_of([] { default_process_group(); }),
                 "Default process group has not been initialized"));
  const auto results = run_ranks_all(1, [](int) {
    const std::string foreign = message_of([] { init_process_group({.backend = "foo"}); });
    const ProcessGroupGuard guard;
    return foreign + "|" + message_of([] { init_process_group(); });
  });
  CHECK(contains(results[0], "Invalid backend: 'foo'"));
  CHECK(contains(results[0], "trying to initialize the default process group twice!"));
}

TEST_CASE("process group: case 80, only rank 0, only rank 1, a port in use") {
  // Two ranks are expected; `present` tells which one is there.
  const auto alone = [](int present) {
    return run_ranks(2, [present](int rank) -> std::string {
      if (rank != present) return "";
      init_process_group({.rendezvous_timeout = Milliseconds(2000)});
      return "no error";
    });
  };
  const auto first = alone(0);
  INFO(describe(first));
  CHECK(!first[0].returned);
  CHECK(contains(first[0].text, "Timed out after 2s waiting for all ranks: 1/2 ranks joined: 0; missing: 1"));
  CHECK(first[0].seconds < 10);

  const auto second = run_ranks(2, [](int rank) -> std::string {
    if (rank == 0) return "";
    // The helper's listener has gone with rank 0: nobody answers.
    std::this_thread::sleep_for(Milliseconds(200));
    init_process_group({.rendezvous_timeout = Milliseconds(2000)});
    return "no error";
  });
  INFO(describe(second));
  CHECK(!second[1].returned);
  CHECK(contains(second[1].text,
                 "The client socket has timed out after 2s while trying to connect to (127.0.0.1, "));

  const Socket taken = listen_on("127.0.0.1", 0);
  const auto start = Work::Clock::now();
  const std::string message = message_of([&] {
    rendezvous(tcp_rendezvous(fmt::format("tcp://127.0.0.1:{}", port_of(taken.fd())), 0, 1),
               Milliseconds(30'000));
  });
  CHECK(contains(message, "The server socket has failed to listen"));
  CHECK(contains(message, "(errno: 98 - Address already in use)"));
  CHECK(seconds_since(start) < 10);
}

TEST_CASE("process group: case 81, rank out of range, rank twice, world sizes that disagree") {
  // What each process claims to be; all must fail, long before the limit of 60 s.
  struct Claim {
    const char* rank;
    const char* world_size;
  };
  const auto run = [](std::vector<Claim> claims) {
    return run_ranks(static_cast<int>(claims.size()), [claims](int rank) -> std::string {
      setenv("RANK", claims[static_cast<size_t>(rank)].rank, 1);
      setenv("WORLD_SIZE", claims[static_cast<size_t>(rank)].world_size, 1);
      init_process_group();
      return "no error";
    });
  };
  const auto check_all = [](const std::vector<RankOutcome>& outcomes, const std::string& expected) {
    INFO(describe(outcomes));
    for (const RankOutcome& outcome : outcomes) {
      CHECK(!outcome.returned);
      CHECK(contains(outcome.text, expected));
      CHECK(outcome.seconds < 15);
    }
  };
  check_all(run({{"0", "2"}, {"9", "2"}}), "RANK 9 is out of range: with WORLD_SIZE 2 ranks go from 0 to 1");
  check_all(run({{"0", "2"}, {"-1", "2"}}), "RANK -1 is out of range");
  check_all(run({{"0", "2"}, {"1", "3"}}), "rank 1 was started with WORLD_SIZE 3, but rank 0 with 2");
  const auto twice = run({{"0", "3"}, {"1", "3"}, {"1", "3"}});
  check_all(twice, "two processes were started with RANK 1");
}

TEST_CASE("process group: case 82, a late rank finds the group unusable") {
  for (const std::string& backend : host_backends) {
    const auto results = run_ranks_all(2, [&](int rank) {
      const ProcessGroupGuard guard({.backend = backend, .timeout = Milliseconds(1500)});
      ProcessGroup& group = default_process_group();
      Tensor tensor = tensor_of({1, 2, 3});
      if (rank == 1) std::this_thread::sleep_for(Milliseconds(2500));
      const auto start = Work::Clock::now();
      const std::string first = message_of([&] { group.all_reduce(tensor)->wait(); });
      const double waited = seconds_since(start);
      const std::string second = message_of([&] { group.barrier()->wait(); });
      return fmt::format("{}|{}|{}", waited, first, second);
    });
    INFO(results[0] << "\n" << results[1]);
    CHECK(std::stod(results[0]) >= 1.5);
    CHECK(std::stod(results[0]) < 10);
    CHECK(contains(results[0], "timed out after 1500ms"));
    CHECK(contains(results[1], "failed on rank 0"));  // rank 1 is told whose limit it was
    for (const std::string& result : results)
      CHECK(contains(result, "this process group cannot be used any more"));
  }
}

TEST_CASE("process group: case 83, a peer that exits is named by every survivor within two seconds") {
  for (const std::string& backend : host_backends) {
    const auto outcomes = run_ranks(3, [&](int rank) -> std::string {
      init_process_group({.backend = backend});
      Tensor tensor = Tensor::ones({100'003});
      default_process_group().all_reduce(tensor)->wait();
      if (rank == 1) kill(getpid(), SIGKILL);
      const auto start = Work::Clock::now();
      const std::string message = message_of([&] { default_process_group().all_reduce(tensor)->wait(); });
      return fmt::format("{}|{}", seconds_since(start), message);
    });
    INFO(backend << "\n" << describe(outcomes));
    CHECK(outcomes[1].signal == SIGKILL);
    for (int survivor : {0, 2}) {
      const RankOutcome& outcome = outcomes[static_cast<size_t>(survivor)];
      REQUIRE(outcome.returned);
      CHECK(std::stod(outcome.text) < 2);
      CHECK(contains(outcome.text, "rank 1 has ended without saying goodbye"));
    }
  }
}

TEST_CASE("process group: case 84, a size mismatch is an error on both ranks, and debug mode names shapes") {
  for (const std::string& backend : host_backends) {
    for (const char* debug : {"off", "DETAIL"}) {
      const auto results =
          run_ranks_all(2,
                        [&](int rank) {
                          const ProcessGroupGuard guard({.backend = backend});
                          Tensor tensor = rank == 0 ? Tensor::ones({2, 4}) : Tensor::ones({4});
                          return message_of([&] { default_process_group().all_reduce(tensor)->wait(); });
                        },
                        std::chrono::seconds(60), {std::string("MINIDDP_DEBUG=") + debug});
      for (const std::string& result : results) {
        INFO(backend << " " << debug << ": " << result);
        CHECK(contains(result, "Detected mismatch between collectives on ranks"));
        CHECK(contains(result, "all_reduce(sum)"));
        const bool detail = std::string(debug) == "DETAIL";
        CHECK(contains(result, detail ? "float32 (2, 4)" : "8 float32"));
        CHECK(contains(result, detail ? "float32 (4)" : "4 float32"));
      }
    }
  }
}

TEST_CASE("process group: case 85, a monitored barrier names who is missing") {
  for (const bool wait_all : {false, true}) {
    const auto results = run_ranks_all(3, [&](int rank) {
      const ProcessGroupGuard guard({.backend = "ring"});
      ProcessGroup& group = default_process_group();
      group.monitored_barrier(Milliseconds(20'000))->wait();
      if (rank == 1 || (rank == 2 && wait_all)) {
        std::this_thread::sleep_for(Milliseconds(2500));
        return std::string("late");
      }
      return message_of([&] { group.monitored_barrier(Milliseconds(1000), wait_all)->wait(); });
    });
    INFO(results[0] << "\n" << results[2]);
    CHECK(contains(results[0], wait_all ? "[Rank 0]: Ranks 1, 2 failed to pass monitored_barrier in 1000 ms"
                                        : "[Rank 0]: Rank 1 failed to pass monitored_barrier in 1000 ms"));
    if (!wait_all) CHECK(contains(results[2], "Rank 1 failed to pass monitored_barrier"));
  }
}

TEST_CASE("process group: case 86, the store's semantics") {
  TcpStoreOptions options;
  options.is_server = true;
  TcpStore store(options);
  CHECK(store.num_keys() == 1);  // "init/", the number of clients
  store.set("a", "first");
  store.set("a", "second");
  CHECK(store.get("a") == "second");
  CHECK(store.add("counter", 5) == 5);
  CHECK(store.add("counter", -2) == 3);
  CHECK(store.get("counter") == "3");
  CHECK_THROWS_AS(store.add("a", 1), DistStoreError);
  CHECK(store.get("a") == "second");  // and the connection lives
  store.set("empty", "");
  CHECK(store.get("empty").empty());
  CHECK(store.check({"a", "empty"}));
  CHECK(!store.check({"a", "missing"}));
  CHECK(store.num_keys() == 4);
  CHECK(store.delete_key("a"));
  CHECK(!store.delete_key("a"));

  CHECK(store.compare_set("fresh", "", "v") == "v");
  CHECK(store.compare_set("other", "expected", "v") == "expected");
  CHECK(!store.check({"other"}));
  CHECK(store.compare_set("fresh", "wrong", "w") == "v");
  CHECK(store.compare_set("fresh", "v", "w") == "w");

  store.set_timeout(Milliseconds(2000));
  const auto start = Work::Clock::now();
  const std::string message = message_of([&] { store.get("never"); });
  CHECK(message == "wait timeout after 2000ms, keys: never");
  CHECK(seconds_since(start) >= 2.0);
  CHECK(seconds_since(start) < 10);

  const auto other = store.clone();
  std::thread setter([&] {
    std::this_thread::sleep_for(Milliseconds(1000));
    other->set("late", "value");
  });
  const auto before = Work::Clock::now();
  store.set_timeout(Milliseconds(20'000));
  const std::string late = store.get("late");
  const double waited = seconds_since(before);
  setter.join();
  CHECK(late == "value");
  CHECK(waited >= 0.9);
  CHECK(waited < 10);

  PrefixStore prefixed("pre", other);
  prefixed.set("a", "x");
  CHECK(store.get("pre/a") == "x");
  CHECK(prefixed.get("a") == "x");
  CHECK(prefixed.add("n", 2) == 2);
  CHECK(store.get("pre/n") == "2");
}

TEST_CASE("process group: case 87, asynchronous work") {
  for (const std::string& backend : host_backends) {
    const auto results = run_ranks_all(2, [&](int rank) {
      const ProcessGroupGuard guard({.backend = backend});
      ProcessGroup& group = default_process_group();
      std::vector<Tensor> tensors;
      std::vector<WorkPtr> works;
      for (int i = 0; i < 20; ++i) {
        tensors.push_back(tensor_of({static_cast<float>(rank + i), 1}));
        works.push_back(group.all_reduce(tensors.back()));
      }
      std::string text;
      for (size_t i = 0; i < works.size(); ++i) {
        works[i]->wait();
        const bool right = tensors[i].to_vector<float>()[0] == 2.0f * static_cast<float>(i) + 1;
        if (!right || !works[i]->is_completed()) text += fmt::format("work {} is wrong ", i);
      }
      // One that fails: its wait throws, every time, and it counts as completed.
      Tensor uneven = Tensor::ones({rank + 1});
      const WorkPtr failing = group.all_reduce(uneven);
      const std::string first = message_of([&] { failing->wait(); }),
                        second = message_of([&] { failing->wait(); });
      if (first != second || !contains(first, "mismatch") || !failing->is_completed())
        text += "failure: " + first;
      return text;
    });
    for (const std::string& result : results) CHECK(result.empty());
  }
}
