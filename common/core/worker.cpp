#include "common/core/worker.h"

#include <map>
#include <memory>
#include <tuple>
#include <utility>

namespace miniddp {
namespace {

thread_local int tier_of_callees = 0;

}  // namespace

Worker::Worker(Device device, int tier) : device_(device), tier_(tier), thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Worker::submit(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Worker::run() {
  tier_of_callees = tier_ + 1;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what the task owns goes before the next one waits
    lock.lock();
  }
}

Worker& worker_of(const std::string& crew, Device device, int tier) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, Device, int>, std::unique_ptr<Worker>> workers;
  std::lock_guard lock(mutex);
  auto& worker = workers[{crew, device, tier}];
  if (!worker) worker = std::make_unique<Worker>(device, tier);
  return *worker;
}

int next_tier() { return tier_of_callees; }

}  // namespace miniddp
