// The "gloo" backend: the collectives of the Gloo library. Only gloo*.cpp includes this.
#pragma once

#include <gloo/algorithm.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "chapters/04_process_group/host_backend.h"

namespace miniddp {

/// An all-reduce of a fixed size over memory of its own. Making one costs more than running it (buffers must
/// be registered and their pages touched for the first time), so they are kept. All ranks make and drop them
/// in the same order: their wire slots are numbered by it.
struct GlooAllReduce {
  std::vector<std::byte> values;
  std::unique_ptr<::gloo::Algorithm> algorithm;
  uint64_t last_use = 0;
};

class GlooBackend : public HostBackend {
 public:
  GlooBackend(int rank, int size, Store& keys, const std::string& address, Milliseconds timeout);
  ~GlooBackend() override;

  std::string name() const override { return "gloo"; }
  int64_t run(const Collective& collective, const Deadline& deadline) override;
  void abort() override;

 private:
  using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;

  /// Compares the fingerprint with all ranks'. Gloo itself ends the process when sizes differ, so it must not
  /// get to see that.
  void agree(const Fingerprint& what, const Deadline& deadline);
  int64_t dispatch(const Collective& collective, const Deadline& deadline);

  int64_t all_reduce(std::span<std::byte> values, DType dtype, ReduceOp op);
  GlooAllReduce& kept_all_reduce(size_t count, DType dtype, ReduceOp op);
  int64_t broadcast(const Collective& collective, const Deadline& deadline);
  int64_t reduce(const Collective& collective, const Deadline& deadline);
  int64_t all_gather(const Collective& collective, const Deadline& deadline);
  int64_t reduce_scatter(const Collective& collective);
  int64_t gather(const Collective& collective, const Deadline& deadline);
  int64_t scatter(const Collective& collective, const Deadline& deadline);
  int64_t point_to_point(const Collective& collective, const Deadline& deadline);
  void barrier(const Collective& collective, const Deadline& deadline);

  Buffer buffer(void* data, size_t nbytes) { return context_->createUnboundBuffer(data, nbytes); }
  std::span<std::byte> scratch(size_t nbytes);
  void guard();

  int rank_;
  int size_;
  std::shared_ptr<::gloo::rendezvous::Context> context_;
  std::map<std::tuple<size_t, DType, ReduceOp>, GlooAllReduce> kept_;
  uint64_t uses_ = 0;
  std::vector<std::byte> scratch_;

  // The library's ring has the time limit of its creation; ours belongs to each operation. A guard keeps it.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Deadline> limit_;
  bool aborted_ = false;
  bool stop_ = false;
  std::thread guard_;
};

}  // namespace miniddp
