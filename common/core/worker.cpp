#include "common/core/worker.h"

#include <map>
#include <memory>
#include <utility>

namespace miniddp {

Worker::Worker(Device device) : device_(device), thread_([this] { run(); }) {}

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

Worker& worker_of(const std::string& crew, Device device) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, Device>, std::unique_ptr<Worker>> workers;
  std::lock_guard lock(mutex);
  auto& worker = workers[{crew, device}];
  if (!worker) worker = std::make_unique<Worker>(device);
  return *worker;
}

}  // namespace miniddp
