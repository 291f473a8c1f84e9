#include "common/cuda_emulator/grid_runner.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "common/cuda_emulator/sanitizers.h"

namespace miniddp::emulator {
namespace {

/// Threads that help whoever has many blocks to run. Made at the first use and never joined: they end with the process.
class Helpers {
 public:
  static Helpers& instance() {
    static Helpers* helpers = new Helpers(settings().workers - 1);
    return *helpers;
  }
  int count() const { return count_; }

  void offer(std::function<void()> work, int times) {
    Quiet quiet;
    std::lock_guard lock(mutex_);
    for (int i = 0; i < times; ++i) work_.push_back(work);
    changed_.notify_all();
  }

 private:
  explicit Helpers(int count) : count_(count) {
    for (int i = 0; i < count; ++i) std::thread([this] { help(); }).detach();
  }
  void help() {
    for (;;) {
      std::function<void()> work;
      {
        Quiet quiet;
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !work_.empty(); });
        work = std::move(work_.front());
        work_.pop_front();
      }
      work();
      Quiet quiet;
      work = nullptr;
    }
  }

  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
};

/// Block runners with their fibers' stacks, kept between launches.
class RunnerCache {
 public:
  static RunnerCache& instance() {
    static auto* cache = new RunnerCache;
    return *cache;
  }
  std::unique_ptr<BlockRunner> take(const void* key) {
    Quiet quiet;
    std::lock_guard lock(mutex_);
    auto& free = free_[key];
    std::unique_ptr<BlockRunner> runner;
    if (free.empty()) {
      runner = std::make_unique<BlockRunner>();
    } else {
      runner = std::move(free.back());
      free.pop_back();
    }
    busy_.push_back(runner.get());
    return runner;
  }
  void give_back(const void* key, std::unique_ptr<BlockRunner> runner) {
    Quiet quiet;
    std::lock_guard lock(mutex_);
    std::erase(busy_, runner.get());
    free_[key].push_back(std::move(runner));
  }
  void forget(const void* key) {
    Quiet quiet;
    std::lock_guard lock(mutex_);
    free_.erase(key);
  }

 private:
  RunnerCache() { std::thread([this] { watch(); }).detach(); }
  /// CUDA threads that spin until another one writes a flag would hang: fibers do not interrupt each other.
  void watch() {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      Quiet quiet;
      std::lock_guard lock(mutex_);
      for (const BlockRunner* runner : busy_) {
        if (runner->running_for() < settings().block_limit) continue;
        std::fprintf(stderr,
                     "error: emulator: %s has run for %lld s. Do its threads wait in a loop for each other? "
                     "(MINIDDP_EMULATOR_BLOCK_LIMIT=SECONDS allows more)\n",
                     runner->describe().c_str(), static_cast<long long>(settings().block_limit.count()));
        std::abort();
      }
    }
  }

  std::mutex mutex_;
  std::map<const void*, std::vector<std::unique_ptr<BlockRunner>>> free_;
  std::vector<const BlockRunner*> busy_;
};

void run_block(BlockRunner& runner, Grid& grid, unsigned block) {
  // A new operating-system thread has new __shared__ variables, so the race detector does not take two blocks that use the
  // same address one after another for a race.
  if (race_detector)
    std::thread([&] { runner.run(grid, block); }).join();
  else
    runner.run(grid, block);
}

/// The work of one launch, shared by all who run its blocks.
struct Work {
  Work(Grid& grid_, const void* key_) : grid(grid_), key(key_), order(grid_.blocks()) {
    grid.order.arrange(order, order.size());
  }

  Grid& grid;
  const void* key;
  std::vector<unsigned> order;
  std::atomic<unsigned> next{0};
  std::atomic<unsigned> done{0};
  std::mutex mutex;
  std::condition_variable finished;

  void run_blocks() {
    const auto total = static_cast<unsigned>(order.size());
    if (next >= total) return;  // a helper that comes late must not touch the grid
#ifdef MINIDDP_EMULATOR_ASAN
    static std::mutex one_block;  // all devices share one copy of each __shared__ variable
    std::lock_guard serial(one_block);
#endif
    auto& cache = RunnerCache::instance();
    auto runner = cache.take(key);
    unsigned ran = 0;
    for (unsigned i; (i = next++) < total; ++ran) run_block(*runner, grid, order[i]);
    cache.give_back(key, std::move(runner));
    Quiet quiet;
    if (ran && (done += ran) == total) {
      std::lock_guard lock(mutex);
      finished.notify_all();
    }
  }
};

}  // namespace

void run_grid(Grid& grid, const void* key) {
  const unsigned blocks = grid.blocks();
  auto work = std::make_shared<Work>(grid, race_detector ? key : nullptr);
  if (race_detector) {
    grid.tokens.resize(blocks * Grid::tokens_per_block + 2);
    release(grid.start_token());
  }
  auto& helpers = Helpers::instance();
  const bool worth_sharing = blocks > 1 && std::size_t{blocks} * grid.threads_per_block() > 512;
  if (worth_sharing)
    helpers.offer([work] { work->run_blocks(); }, static_cast<int>(std::min<unsigned>(helpers.count(), blocks - 1)));
  work->run_blocks();
  {
    Quiet quiet;
    std::unique_lock lock(work->mutex);
    work->finished.wait(lock, [&] { return work->done == blocks; });
  }
  if (race_detector) acquire(grid.end_token());
}

void forget_fibers(const void* key) {
  if (race_detector) RunnerCache::instance().forget(key);
}

}  // namespace miniddp::emulator
