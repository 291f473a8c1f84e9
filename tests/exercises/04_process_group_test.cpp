// Tests of the exercises of chapter 04: the ring on ranks that are threads, the store, and who belongs to a run.
#include <condition_variable>
#include <future>
#include <map>

#include "chapters/04_process_group/membership.h"
#include "chapters/04_process_group/ring_all_reduce.h"
#include "chapters/04_process_group/tcp_store.h"
#include "tests/exercises/expect.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

// What Links needs of a store, without one of this chapter's: the tasks do not wait for each other.
class Notes : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key) override {
    wait({key}, timeout());
    const std::lock_guard lock(mutex_);
    return values_[key];
  }
  void wait(const std::vector<std::string>& keys, Milliseconds limit) override {
    std::unique_lock lock(mutex_);
    const bool there = changed_.wait_for(lock, limit, [&] { return values_.contains(keys.at(0)); });
    miniddp::check<TimeoutError>(there, "no {}", keys[0]);
  }
  int64_t add(const std::string&, int64_t) override { throw Error("not needed"); }
  bool check(const std::vector<std::string>&) override { throw Error("not needed"); }
  std::string compare_set(const std::string&, const std::string&, const std::string&) override { throw Error("not needed"); }
  bool delete_key(const std::string&) override { throw Error("not needed"); }
  int64_t num_keys() override { throw Error("not needed"); }
  std::shared_ptr<Store> clone() override { throw Error("not needed"); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

using Values = std::vector<double>;

struct Ring {
  std::vector<Values> values;   // of each rank, afterwards
  std::vector<int64_t> bytes;  // that each rank sent
};

// Every rank begins with its own values and runs `body` on them.
Ring in_ring(const std::vector<std::vector<float>>& begin, const std::function<void(Links&, std::byte*, int64_t)>& body) {
  const auto size = static_cast<int>(begin.size());
  const Deadline deadline(Milliseconds(5000));
  Notes notes;
  std::vector<std::vector<float>> values = begin;
  Ring ring{std::vector<Values>(begin.size()), std::vector<int64_t>(begin.size())};
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      const auto at = static_cast<size_t>(rank);
      Links links(rank, size, notes, "127.0.0.1", deadline);
      body(links, reinterpret_cast<std::byte*>(values[at].data()), static_cast<int64_t>(values[at].size()));
      ring.values[at] = Values(values[at].begin(), values[at].end());
      ring.bytes[at] = links.bytes_sent();
    }));
  }
  std::exception_ptr first;
  for (auto& rank : ranks) {
    try {
      rank.get();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return ring;
}

// Element i of rank r: (i + 1) 10^r. The digits of a sum show which ranks are in it.
std::vector<std::vector<float>> digits(int size, int64_t numel) {
  std::vector<std::vector<float>> values(static_cast<size_t>(size));
  float scale = 1;
  for (auto& mine : values) {
    for (int64_t i = 0; i < numel; ++i) mine.push_back(static_cast<float>(i % 4 + 1) * scale);
    scale *= 10;
  }
  return values;
}

double sum_of(int size, int64_t element) {
  double sum = 0;
  for (int r = 0; r < size; ++r) sum = 10 * sum + static_cast<double>(element % 4 + 1);
  return sum;
}

constexpr std::pair<int, int64_t> cases[] = {{2, 6}, {3, 7}, {4, 10}, {3, 2}, {5, 40'000}};  // ranks, elements

std::string named(int size, int64_t numel) { return fmt::format("{} elements on {} ranks", numel, size); }

const Deadline soon() { return Deadline(Milliseconds(5000)); }

}  // namespace

TEST_CASE("04.1 reduce-scatter in a ring", "[04.1]") {
  for (const auto& [size, numel] : cases) {
    const Ring ring = in_ring(digits(size, numel), [](Links& links, std::byte* values, int64_t n) {
      std::vector<std::byte> inbox;
      ring_reduce_scatter(links, {}, values, n, DType::float32, ReduceOp::sum, inbox, soon());
    });
    for (int rank = 0; rank < size; ++rank) {
      const int chunk = (rank + 1) % size;
      Values found, expected;
      for (int64_t i = ring_chunk_begin(numel, chunk, size); i < ring_chunk_begin(numel, chunk + 1, size); ++i) {
        found.push_back(ring.values[static_cast<size_t>(rank)][static_cast<size_t>(i)]);
        expected.push_back(sum_of(size, i));
      }
      if (expected.empty()) continue;  // more ranks than elements
      expect_close(fmt::format("chunk {} on rank {}, {} (element i of rank r is (i mod 4 + 1) 10^r)", chunk, rank, named(size, numel)), found,
                   expected, 0);
    }
  }
  const Ring largest = in_ring({{1, 9, 2}, {5, 3, 4}}, [](Links& links, std::byte* values, int64_t n) {
    std::vector<std::byte> inbox;
    ring_reduce_scatter(links, {}, values, n, DType::float32, ReduceOp::max, inbox, soon());
  });
  expect_close("chunk 1 on rank 0, maximum of 1 9 2 and 5 3 4", {largest.values[0][1], largest.values[0][2]}, {9, 4}, 0);
}

TEST_CASE("04.2 all-gather in a ring", "[04.2]") {
  for (const auto& [size, numel] : cases) {
    std::vector<std::vector<float>> begin(static_cast<size_t>(size), std::vector<float>(static_cast<size_t>(numel), -1));
    Values expected;
    for (int64_t i = 0; i < numel; ++i) expected.push_back(static_cast<double>(i % 97));
    for (int rank = 0; rank < size; ++rank) {
      const int chunk = (rank + 1) % size;
      for (int64_t i = ring_chunk_begin(numel, chunk, size); i < ring_chunk_begin(numel, chunk + 1, size); ++i)
        begin[static_cast<size_t>(rank)][static_cast<size_t>(i)] = static_cast<float>(i % 97);
    }
    const Ring ring = in_ring(begin, [](Links& links, std::byte* values, int64_t n) {
      ring_all_gather(links, {}, values, n, DType::float32, soon());
    });
    for (int rank = 0; rank < size; ++rank)
      expect_close(fmt::format("values on rank {}, {}, -1 where it had none", rank, named(size, numel)), ring.values[static_cast<size_t>(rank)],
                   expected, 0);
  }
}

TEST_CASE("04.3 all-reduce", "[04.3]") {
  for (const auto& [size, numel] : cases) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      const Ring ring = in_ring(digits(size, numel), [op](Links& links, std::byte* values, int64_t n) {
        std::vector<std::byte> inbox;
        ring_all_reduce(links, {}, values, n, DType::float32, op, inbox, soon());
      });
      Values expected;
      for (int64_t i = 0; i < numel; ++i) expected.push_back(sum_of(size, i) / (op == ReduceOp::avg ? size : 1));
      for (int rank = 0; rank < size; ++rank) {
        const std::string name = fmt::format("{} on rank {}, {}", name_of(op), rank, named(size, numel));
        expect_close(name, ring.values[static_cast<size_t>(rank)], expected, 1e-3);
        expect(ring.values[static_cast<size_t>(rank)] == ring.values[0], name + ": not bit for bit what rank 0 has");
        expect(ring.bytes[static_cast<size_t>(rank)] <= (2 * numel * 4 * (size - 1)) / size + 8 * size,
               fmt::format("{}: sent {} bytes, expected 2 (R - 1) / R of {}", name, ring.bytes[static_cast<size_t>(rank)], 4 * numel));
      }
    }
  }
  const Ring alone = in_ring({{3, 4}}, [](Links& links, std::byte* values, int64_t n) {
    std::vector<std::byte> inbox;
    ring_all_reduce(links, {}, values, n, DType::float32, ReduceOp::avg, inbox, soon());
  });
  expect_close("average of one rank", alone.values[0], {3, 4}, 0);
}

TEST_CASE("04.4 waiting for keys", "[04.4]") {
  TcpStoreOptions options;
  options.is_server = true;
  options.timeout = Milliseconds(3000);
  TcpStore store(options);
  store.set("a", "first");
  store.set("nothing", "");
  expect_equal("get of a key that is there", store.get("a"), std::string("first"));
  expect_equal("get of an empty value", store.get("nothing"), std::string());
  store.wait({"a", "nothing"}, Milliseconds(500));
  const std::shared_ptr<Store> other = store.clone();
  using Clock = Deadline::Clock;
  const auto begin = Clock::now();
  std::future<void> later = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(Milliseconds(150));
    other->set("b", "second");
  });
  store.wait({"a", "b"}, Milliseconds(3000));
  const auto waited = std::chrono::duration_cast<Milliseconds>(Clock::now() - begin).count();
  later.get();
  expect(waited >= 140, fmt::format("wait for a and b returned after {} ms, but b was set after 150 ms", waited));
  expect(waited < 2000, fmt::format("wait for a and b returned after {} ms, but b was set after 150 ms", waited));
  later = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(Milliseconds(150));
    other->set("c", "third");
  });
  expect_equal("get of a key that another sets after 150 ms", store.get("c"), std::string("third"));
  later.get();
  for (const char* missing : {"never", "nor this"})
    expect_throws<TimeoutError>("wait for 'a', 'never' and 'nor this', 200 ms", missing,
                                [&] { store.wait({"a", "never", "nor this"}, Milliseconds(200)); });
}

TEST_CASE("04.5 who may join", "[04.5]") {
  const auto expect_refusal = [](const std::string& what, const std::string& found, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      expect(found.find(part) != std::string::npos, fmt::format("{}: expected a refusal that says '{}', found '{}'", what, part, found));
  };
  Membership members(3);
  for (const int rank : {1, 0, 2}) expect_equal(fmt::format("rank {} of 3", rank), members.join(rank, 3), std::string());
  expect(members.complete(), "all three ranks have joined, but the group is not complete");
  expect_refusal("rank 1 of 3 again", members.join(1, 3), {"two processes", "1"});
  expect(!members.failure(), "a refusal after all had joined must not end their run");

  expect_refusal("rank 1 of 2 where 3 are expected", Membership(3).join(1, 2), {"world sizes disagree", "rank 1", "2", "3"});
  expect_refusal("rank 3 of 3", Membership(3).join(3, 3), {"out of range", "3"});
  expect_refusal("rank -1 of 3", Membership(3).join(-1, 3), {"out of range", "-1"});
  expect(!Membership(0).join(0, 0).empty(), "a store that expects nobody took a member");

  Membership waiting(3);
  expect_equal("rank 0 of 3", waiting.join(0, 3), std::string());
  expect(!waiting.failure(), "there is no failure yet");
  const std::string first = waiting.join(0, 3);
  expect_refusal("rank 0 of 3 again, before the others", first, {"two processes", "0"});
  expect(waiting.failure().has_value(), "rank 0 was started twice, so another is missing for ever, and the others are not told: no failure is set");
  waiting.join(7, 3);
  expect_equal("the run's failure after a second refusal", *waiting.failure(), first);
}
