// A process group over a HostBackend: one communication thread, time limits, and one answer to "who failed
// first?".
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "chapters/04_process_group/host_backend.h"
#include "chapters/04_process_group/process_group.h"

namespace miniddp {

/// MINIDDP_DEBUG. `detail` compares operation, shape and dtype on all ranks through the store before each
/// collective and names who differs; `info` prints what the group is made of.
enum class DebugLevel { off, info, detail };
/// Reads the variable: off, info or detail, upper or lower case. Throws Error on anything else.
DebugLevel debug_level();

/// Two threads serve it. The communication thread runs the operations in the order of submission, so they
/// overlap with the caller's arithmetic. The watcher waits at the store for news of a failure anywhere (a
/// rank that died, a time-out, a mismatch) and aborts what runs: that is how a rank hears within milliseconds
/// of a death on the far side of the ring. Tensors of a GPU travel through host memory.
class HostProcessGroup : public ProcessGroup {
 public:
  /// `keys` is this group's own part of the store.
  HostProcessGroup(int rank, int size, std::shared_ptr<TcpStore> store, std::shared_ptr<Store> keys,
                   std::unique_ptr<HostBackend> backend, DebugLevel debug);
  /// Operations that have not ended fail. Waits up to a second for the other ranks to come here too.
  ~HostProcessGroup() override;

  std::string backend() const override { return backend_->name(); }

 private:
  class HostWork;
  struct Task {
    std::shared_ptr<HostWork> work;
    Collective collective;
  };

  WorkPtr submit(Collective collective) override;
  void communicate();
  int64_t run(Collective& collective);
  void check_detail(const Collective& collective, const Deadline& deadline);
  void run_monitored_barrier(const Collective& collective, const Deadline& deadline);
  std::exception_ptr failed(const Collective& collective, const std::exception& error);
  std::string find_cause(bool connection_lost, const std::string& own_account);
  void watch();
  void take_leave() noexcept;

  std::shared_ptr<TcpStore> store_;     // keeps the membership alive
  std::shared_ptr<Store> keys_;         // for the communication thread
  std::shared_ptr<TcpStore> reporter_;  // the same: reports of failure
  std::shared_ptr<TcpStore> watched_;   // for the watcher
  std::unique_ptr<HostBackend> backend_;
  DebugLevel debug_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stop_ = false;
  std::string cause_;     // the run's first failure, as the watcher heard it
  std::string unusable_;  // why further operations fail
  std::thread communicator_;
  std::thread watcher_;
};

}  // namespace miniddp
