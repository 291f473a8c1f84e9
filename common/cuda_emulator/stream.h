// Streams: queues of operations, each with a thread that runs them in order. Events are marks in them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "common/cuda_emulator/graph.h"
#include "common/cuda_emulator/host_api.h"

namespace miniddp::emulator {

class Mark;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// `blocking`: it and the device's default stream wait for each other.
  Stream(int device, bool blocking, std::uint64_t number);

  int device() const { return device_; }
  bool blocking() const { return blocking_; }

  /// Appends an operation; its ticket is its number in the stream. With eager streams it has run on return.
  std::uint64_t push(Operation operation);
  std::uint64_t last_ticket();
  /// Lazy streams run operations up to the highest ticket that was demanded.
  void demand(std::uint64_t ticket);
  void wait(std::uint64_t ticket);
  void wait_all() { wait(last_ticket()); }
  /// Whether all has run; who asks until the answer is yes gets it some day, so this demands.
  bool idle();
  /// The same without demanding.
  bool pending();
  /// Appends a mark that is set when the stream gets there.
  std::shared_ptr<Mark> push_mark();
  /// Runs what is left, then ends the thread.
  void close();
  /// The program ends: drops what has not run.
  void abandon();

  CaptureState capture;  // what recording a graph from this stream needs (guarded by the capture mutex in graph.cpp)

 private:
  struct Entry {
    Operation operation;
    char* token;  // for the race detector: what happened before the call
  };
  void start_worker();
  void work();
  void run(Operation& operation);
  void pause();

  const int device_;
  const bool blocking_;
  std::uint64_t random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  std::uint64_t pushed_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t demanded_ = 0;
  bool has_worker_ = false;
  bool closing_ = false;
  bool abandoned_ = false;
  std::mutex eager_;  // held while an operation runs on a caller's thread
};

/// A point in a stream: what an event records.
class Mark {
 public:
  /// Tells where it stands, before anybody waits for it.
  void place(Stream& stream, std::uint64_t ticket);
  void set();
  void wait();
  bool ready();
  std::chrono::steady_clock::time_point time() const { return time_; }

 private:
  std::weak_ptr<Stream> stream_;
  std::uint64_t ticket_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point time_;
};

/// The stream of a handle; null is the current device's default stream. cudaErrorInvalidResourceHandle for a handle that
/// is none, or, if `on_current_device`, belongs to another device.
cudaError_t find_stream(cudaStream_t handle, std::shared_ptr<Stream>& stream, bool on_current_device = false);
std::shared_ptr<Stream> default_stream(int device);
std::vector<std::shared_ptr<Stream>> streams_of(int device);
cudaStream_t create_stream(int device, bool blocking);
cudaError_t destroy_stream(cudaStream_t handle);

/// Appends an operation after those that the legacy default stream's rules put before it; or, while the stream is being
/// captured, to the graph. `ticket` (may be null) receives its number, 0 when it was captured.
cudaError_t enqueue(Stream& stream, Operation operation, std::uint64_t* ticket = nullptr);

}  // namespace miniddp::emulator

struct CUstream_st final : miniddp::emulator::Stream {
  using Stream::Stream;
};
