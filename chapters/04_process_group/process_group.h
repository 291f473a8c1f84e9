// ProcessGroup: N processes that call the same collective operations in the same order. Names follow
// torch.distributed.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "chapters/04_process_group/collective.h"

namespace miniddp {

/// An operation of a process group that failed. Afterwards the group cannot be used any more.
class DistBackendError : public Error {
 public:
  using Error::Error;
};

/// A handle to an operation that runs while the caller goes on.
class Work {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Work() = default;

  /// True once it has succeeded or failed.
  virtual bool is_completed() const = 0;
  /// Waits for the end and throws what the operation threw, every time it is called. The wait is limited by
  /// the operation's own time limit. On a GPU backend only the current stream waits, not the host, as in
  /// PyTorch.
  virtual void wait() = 0;
  /// For the timeline; valid once completed.
  virtual Clock::time_point start_time() const = 0;
  virtual Clock::time_point end_time() const = 0;
  /// Bytes of payload that this rank sent for it.
  virtual int64_t bytes_sent() const = 0;
};
using WorkPtr = std::shared_ptr<Work>;

/// Every rank of the group must call the same operations, with the same sizes, in the same order; which rank
/// differs is found out before data is touched. All tensors of a call are contiguous and on one device. They
/// belong to the operation until wait() has returned. Calls return at once; operations run in the order of
/// the calls. Errors in the caller's own arguments (an invalid root, a wrong number of tensors, dtypes that
/// differ) are thrown by the call itself, all others by wait(). After a failure every further operation fails
/// with the first cause.
class ProcessGroup {
 public:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// "gloo", "ring", "nccl".
  virtual std::string backend() const = 0;

  /// Limit of every operation from here on; default 300 s.
  Milliseconds timeout() const { return timeout_; }
  void set_timeout(Milliseconds timeout) { timeout_ = timeout; }

  /// Every rank gets the root's elements.
  [[nodiscard]] WorkPtr broadcast(Tensor tensor, int root);
  /// Every rank gets the reduction over all ranks, in place; the result is the same on all of them, bit for
  /// bit.
  [[nodiscard]] WorkPtr all_reduce(Tensor tensor, ReduceOp op = ReduceOp::sum);
  /// The root gets the reduction, in place. On other ranks the contents are undefined afterwards, as in
  /// PyTorch.
  [[nodiscard]] WorkPtr reduce(Tensor tensor, int root, ReduceOp op = ReduceOp::sum);
  /// outputs[r] becomes rank r's input; size() outputs of the input's size.
  [[nodiscard]] WorkPtr all_gather(std::vector<Tensor> outputs, Tensor input);
  /// `output` becomes the reduction of all ranks' inputs[rank()].
  [[nodiscard]] WorkPtr reduce_scatter(Tensor output, std::vector<Tensor> inputs,
                                       ReduceOp op = ReduceOp::sum);
  /// On the root outputs[r] becomes rank r's input; the others give no outputs.
  [[nodiscard]] WorkPtr gather(std::vector<Tensor> outputs, Tensor input, int root);
  /// `output` becomes the root's inputs[rank()]; the others give no inputs.
  [[nodiscard]] WorkPtr scatter(Tensor output, std::vector<Tensor> inputs, int root);
  /// To and from one rank. A send may wait until the other side receives: two ranks that both send first and
  /// receive then can block each other until the time limit. exchange() does both at once.
  [[nodiscard]] WorkPtr send(Tensor tensor, int destination, int tag = 0);
  [[nodiscard]] WorkPtr recv(Tensor tensor, int source, int tag = 0);
  [[nodiscard]] WorkPtr exchange(Tensor out, int destination, Tensor in, int source, int tag = 0);
  /// Returns from wait() once all ranks have called it.
  [[nodiscard]] WorkPtr barrier();
  /// A barrier that names who is missing: rank 0's error says which rank did not come in time (with
  /// wait_all_ranks all of them).
  [[nodiscard]] WorkPtr monitored_barrier(Milliseconds timeout, bool wait_all_ranks = false);

 protected:
  /// Checked, numbered, with a time limit: to be run after everything that was submitted before.
  virtual WorkPtr submit(Collective collective) = 0;

 private:
  WorkPtr start(Collective collective);

  int rank_;
  int size_;
  Milliseconds timeout_{300'000};
  uint32_t next_sequence_ = 0;
};

}  // namespace miniddp
