// A NCCL communicator: one rank's view of a segment of shared memory.
//
// Every rank has a slot: a collective copies its data into the slots, all ranks meet, and each reads what it needs. Every
// ordered pair of ranks has a mailbox for send and receive. Ranks wait on one futex, the bell; nothing is ever locked, so a
// rank that dies at any place cannot block the others.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace miniddp::emulator {

inline constexpr int most_ranks = 64;
inline constexpr std::size_t slot_bytes = 256 << 10;
inline constexpr std::size_t mailbox_bytes = 64 << 10;

enum class CallKind : int { all_reduce, reduce, broadcast, reduce_scatter, all_gather };
const char* name_of(CallKind kind);

/// A collective, as one rank calls it. All ranks must agree.
struct Call {
  CallKind kind;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  bool operator==(const Call&) const = default;
};

struct alignas(64) RankState {
  std::atomic<int> process;              // 0: has not joined
  std::atomic<int> device;
  std::atomic<bool> left;                // destroyed its communicator, with nothing under way
  std::atomic<std::uint64_t> meetings;   // how many it has come to
  Call call;
};

struct alignas(64) Mailbox {
  std::atomic<std::uint64_t> sent;   // pieces put in …
  std::atomic<std::uint64_t> taken;  // … and taken out: full while they differ
  std::size_t total;                 // bytes of the whole message
  std::size_t piece;                 // bytes of this piece
};

struct Segment {
  std::atomic<std::uint32_t> bell;     // futex: changes whenever something that ranks wait for may have happened
  std::atomic<std::uint32_t> failure;  // an ncclResult_t: some rank gave up, so nobody can go on
  std::atomic<int> ranks;              // as the first to come says
  RankState rank[most_ranks];
};

/// A point-to-point transfer of one group.
struct Transfer {
  bool sends;
  int peer;
  char* data;
  std::size_t bytes;
  std::size_t moved = 0;
  bool started = false;

  bool done() const { return started && moved == bytes; }
};

class Communicator {
 public:
  /// Opens the segment `name` and joins as `rank` on the current device. Throws nothing: see `error`.
  Communicator(const std::string& name, int ranks, int rank, int device);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Waits for all ranks. ncclSystemError when some do not come in time, ncclInvalidUsage for two ranks on one device.
  ncclResult_t complete();
  ncclResult_t error() const { return static_cast<ncclResult_t>(error_.load()); }
  void abort();

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  int device() const { return device_; }
  const std::string& name() const { return name_; }

  // In the stream. After a failure the receiving memory holds NaN.
  void run(const Call& call, const char* send, char* receive);
  void run(std::vector<Transfer> transfers);

 private:
  char* slot(int rank) const;
  Mailbox& mailbox(int from, int to) const;
  char* mailbox_data(int from, int to) const;
  ncclResult_t collective(const Call& call, const char* send, char* receive);
  void put(const Call& call, const char* send, std::size_t at, std::size_t part) const;
  void take(const Call& call, char* receive, std::size_t at, std::size_t part) const;
  bool advance(Transfer& transfer, bool& mismatch);
  ncclResult_t agree(const Call& call);
  ncclResult_t meet(const char* what);
  template <class Ready, class Missing>
  ncclResult_t wait(const char* what, Ready ready, Missing missing);
  void ring() const;
  ncclResult_t give_up(ncclResult_t result, const std::string& message);

  const std::string name_;
  const int ranks_;
  const int rank_;
  const int device_;
  std::shared_ptr<Segment> segment_;  // one mapping for all ranks of a process
  std::atomic<int> error_{ncclSuccess};
  std::atomic<bool> aborted_{false};
  std::uint64_t calls_ = 0;
};

std::size_t size_of(ncclDataType_t type);  // 0: unknown
/// to[i] = to[i] op from[i], in the type's own precision.
void combine(ncclDataType_t type, ncclRedOp_t op, void* to, const void* from, std::size_t count);
/// values /= ranks: the end of an average.
void divide(ncclDataType_t type, void* values, std::size_t count, int ranks);
/// Fills memory that a failed operation should have written with NaN.
void spoil(char* receive, std::size_t bytes);

/// Prints and remembers a message for ncclGetLastError; returns `result`.
ncclResult_t report(ncclResult_t result, const std::string& message);
const char* last_report();

}  // namespace miniddp::emulator
