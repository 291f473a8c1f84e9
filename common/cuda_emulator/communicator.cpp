// Segments, joining, meeting, giving up. What the ranks then do with the segment is in collectives.cpp.
#include "common/cuda_emulator/communicator.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/settings.h"

namespace miniddp::emulator {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t header_bytes = (sizeof(Segment) + 4095) / 4096 * 4096;
constexpr std::size_t mailbox_step = sizeof(Mailbox) + mailbox_bytes;

// Reserved, not used: pages of a shared-memory file that nobody touches cost nothing.
std::size_t segment_bytes(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return header_bytes + n * slot_bytes + n * n * mailbox_step;
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::milliseconds limit) {
  const timespec time{0, limit.count() * 1000000};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}
void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

std::shared_ptr<Segment> map_segment(const std::string& name, int ranks) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0) return nullptr;
  const std::size_t bytes = segment_bytes(ranks);
  struct stat info {};
  // Every rank asks for the same size, or will be told so; the file never shrinks under another's feet.
  void* memory = MAP_FAILED;
  if (fstat(file, &info) == 0 && (static_cast<std::size_t>(info.st_size) >= bytes || ftruncate(file, off_t(bytes)) == 0))
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<Segment*>(memory), [bytes](Segment* segment) { munmap(segment, bytes); }};
}

/// One mapping for each segment and process, so that the race detector sees ranks of one process meet at one address.
std::shared_ptr<Segment> open_segment(const std::string& name, int ranks) {
  static auto* open = new std::map<std::string, std::weak_ptr<Segment>>;
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  auto& known = (*open)[name];
  auto segment = known.lock();
  if (!segment) known = segment = map_segment(name, ranks);
  std::erase_if(*open, [](const auto& entry) { return entry.second.expired(); });
  return segment;
}

/// A process that is gone, or that its parent has not yet taken note of (a zombie).
bool has_ended(int process) {
  if (process == 0) return false;
  if (kill(process, 0) != 0 && errno == ESRCH) return true;
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');  // "pid (name) state …"
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'Z';
}

std::mutex& report_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::string& report_text() {
  static auto* text = new std::string;
  return *text;
}

}  // namespace

ncclResult_t report(ncclResult_t result, const std::string& message) {
  std::lock_guard lock(report_mutex());
  report_text() = message;
  std::fprintf(stderr, "emulator: NCCL: %s\n", message.c_str());
  return result;
}
const char* last_report() {
  thread_local std::string copy;
  std::lock_guard lock(report_mutex());
  copy = report_text();
  return copy.c_str();
}

Communicator::Communicator(const std::string& name, int ranks, int rank, int device)
    : name_(name), ranks_(ranks), rank_(rank), device_(device), segment_(open_segment(name, ranks)) {
  if (!segment_) {
    error_ = report(ncclSystemError, "cannot make shared memory " + name);
    return;
  }
  int expected = 0;
  segment_->ranks.compare_exchange_strong(expected, ranks);
  if (segment_->ranks != ranks)
    error_ = report(ncclInvalidArgument, "rank " + std::to_string(rank) + " says there are " + std::to_string(ranks) +
                                             " ranks, another one says " + std::to_string(segment_->ranks));
  else if (int nobody = 0; !segment_->rank[rank].process.compare_exchange_strong(nobody, getpid()))
    error_ = report(ncclInvalidArgument, "rank " + std::to_string(rank) + " has joined twice");
  segment_->rank[rank].device = device;
  ring();
}

Communicator::~Communicator() {
  if (!segment_) return;
  segment_->rank[rank_].left = true;
  ring();
}

ncclResult_t Communicator::complete() {
  if (error() != ncclSuccess) return error();
  const auto joined = [this](int r) { return segment_->rank[r].process != 0; };
  const auto result = wait(
      "ncclCommInitRank",
      [&] {
        for (int r = 0; r < ranks_; ++r)
          if (!joined(r)) return false;
        return true;
      },
      [&](int r) { return !joined(r); });
  shm_unlink(name_.c_str());  // all have it open, or nobody will come any more
  if (result != ncclSuccess) return result;
  for (int r = 0; r < ranks_; ++r)
    if (r != rank_ && segment_->rank[r].device == device_)
      return give_up(ncclInvalidUsage, "ranks " + std::to_string(std::min(r, rank_)) + " and " +
                                           std::to_string(std::max(r, rank_)) + " are both on device " +
                                           std::to_string(device_) + ": NCCL wants a GPU for each");
  return ncclSuccess;
}

void Communicator::ring() const {
  ++segment_->bell;
  futex_wake_all(segment_->bell);
}

ncclResult_t Communicator::give_up(ncclResult_t result, const std::string& message) {
  if (error() == ncclSuccess) report(result, message);
  error_ = result;
  std::uint32_t none = ncclSuccess;
  segment_->failure.compare_exchange_strong(none, result);
  ring();
  return result;
}

void Communicator::abort() {
  aborted_ = true;
  error_ = ncclInternalError;
  std::uint32_t none = ncclSuccess;
  segment_->failure.compare_exchange_strong(none, ncclRemoteError);
  ring();
}

/// Waits until ready(), or until it never will be: a rank r for which missing(r) has left or died, another one has given up,
/// this one was aborted, the time is over.
template <class Ready, class Missing>
ncclResult_t Communicator::wait(const char* what, Ready ready, Missing missing) {
  const auto deadline = Clock::now() + settings().nccl_timeout;
  const std::string who = "rank " + std::to_string(rank_) + ", call " + std::to_string(calls_) + " (" + what + ")";
  auto next_look = Clock::now() + std::chrono::milliseconds(100);
  for (int turn = 0;; ++turn) {
    const std::uint32_t seen = segment_->bell;
    if (ready()) return ncclSuccess;
    if (aborted_) return ncclInternalError;
    if (segment_->failure != ncclSuccess) {
      error_ = static_cast<int>(segment_->failure.load());
      if (ready()) return ncclSuccess;
      return error();
    }
    if (turn < 50) {  // the others are often only microseconds away
      std::this_thread::yield();
      continue;
    }
    const auto now = Clock::now();
    if (now >= next_look) {
      next_look = now + std::chrono::milliseconds(100);
      for (int r = 0; r < ranks_; ++r) {
        if (!missing(r)) continue;
        const int process = segment_->rank[r].process;
        const bool died = has_ended(process);
        const bool left = segment_->rank[r].left;
        if ((!died && !left) || !missing(r)) continue;
        return give_up(ncclRemoteError, who + ": rank " + std::to_string(r) +
                                            (left ? " has destroyed its communicator"
                                                  : " (process " + std::to_string(process) + ") has ended"));
      }
    }
    if (now >= deadline) {
      std::string absent;
      for (int r = 0; r < ranks_; ++r)
        if (missing(r)) absent += (absent.empty() ? "" : ", ") + std::to_string(r);
      return give_up(ncclRemoteError, who + ": has waited " + std::to_string(settings().nccl_timeout.count()) +
                                          " s for rank " + absent + ", which has not called");
    }
    futex_wait(segment_->bell, seen, std::chrono::milliseconds(50));
  }
}

ncclResult_t Communicator::meet(const char* what) {
  release(segment_.get());
  const std::uint64_t mine = ++segment_->rank[rank_].meetings;
  ring();
  const auto missing = [&](int r) { return segment_->rank[r].meetings < mine; };
  const auto result = wait(
      what,
      [&] {
        for (int r = 0; r < ranks_; ++r)
          if (missing(r)) return false;
        return true;
      },
      missing);
  acquire(segment_.get());
  return result;
}

/// Whether all ranks call the same. After they have met.
ncclResult_t Communicator::agree(const Call& call) {
  const auto describe = [](int rank, const Call& c) {
    return "rank " + std::to_string(rank) + " calls " + name_of(c.kind) + " of " + std::to_string(c.count) +
           " elements (type " + std::to_string(c.type) + ", operation " + std::to_string(c.op) + ", root " +
           std::to_string(c.root) + ")";
  };
  for (int r = 0; r < ranks_; ++r)
    if (segment_->rank[r].call != call)
      return give_up(ncclInvalidUsage, "call " + std::to_string(calls_) + ": " + describe(rank_, call) + ", " +
                                           describe(r, segment_->rank[r].call));
  return ncclSuccess;
}

char* Communicator::slot(int rank) const {
  return reinterpret_cast<char*>(segment_.get()) + header_bytes + static_cast<std::size_t>(rank) * slot_bytes;
}
Mailbox& Communicator::mailbox(int from, int to) const {
  const auto index = static_cast<std::size_t>(from) * ranks_ + to;
  return *reinterpret_cast<Mailbox*>(slot(ranks_) + index * mailbox_step);
}
char* Communicator::mailbox_data(int from, int to) const {
  return reinterpret_cast<char*>(&mailbox(from, to)) + sizeof(Mailbox);
}

// ---- what needs wait(), which is a template of this file

void Communicator::run(const Call& call, const char* send, char* receive) {
  ++calls_;
  if (error() == ncclSuccess && collective(call, send, receive) == ncclSuccess) return;
  if (call.kind == CallKind::reduce && rank_ != call.root) return;
  const std::size_t parts = call.kind == CallKind::all_gather ? static_cast<std::size_t>(ranks_) : 1;
  spoil(receive, call.count * parts * size_of(call.type));
}

void Communicator::run(std::vector<Transfer> transfers) {
  ++calls_;
  bool mismatch = false;
  const auto finished = [&] {
    bool all = true;
    for (Transfer& transfer : transfers) {
      while (!mismatch && !transfer.done() && advance(transfer, mismatch)) {
      }
      all &= transfer.done();
    }
    return all || mismatch;
  };
  const auto missing = [&](int r) {
    for (const Transfer& transfer : transfers)
      if (!transfer.done() && transfer.peer == r) return true;
    return false;
  };
  if (error() == ncclSuccess && wait("Send and Recv", finished, missing) == ncclSuccess && !mismatch) return;
  for (const Transfer& transfer : transfers)
    if (!transfer.sends) spoil(transfer.data, transfer.bytes);
}

}  // namespace miniddp::emulator
