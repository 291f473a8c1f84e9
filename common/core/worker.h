// A thread that belongs to a device and runs tasks one after another.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "common/core/device.h"

namespace miniddp {

/// Tasks run in order of submission; a task must not throw. The thread ends with the object, after the tasks it holds.
class Worker {
 public:
  explicit Worker(Device device, int tier = 0);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void submit(std::function<void()> task);
  Device device() const { return device_; }

 private:
  void run();

  Device device_;
  int tier_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

/// The worker of a device in a named crew ("backward", "replica"); made at the first call, kept until the program ends. Whoever waits
/// for a worker must take it from the tier next_tier(), so that nobody ever waits for itself.
Worker& worker_of(const std::string& crew, Device device, int tier = 0);

/// 0 on ordinary threads; on a worker one more than its own tier. Tasks that wait for other workers' tasks therefore wait for a later
/// tier only, and work that is nested in work cannot deadlock.
int next_tier();

}  // namespace miniddp
