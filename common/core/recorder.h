// Where time and bytes go: spans of time and transfers between devices, collected by the library while a profile is taken.
// When none is taken, a span costs one load of a flag. common/training/profile.h shows what was collected.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/core/device.h"

namespace miniddp {

/// Time that one phase took on one row of the picture: "cpu:1", or "cpu:1 communication" for a lane of that device.
struct SpanRecord {
  std::string phase, row;
  int64_t begin = 0, end = 0;  // nanoseconds of the machine's steady clock: processes of one machine can be compared
};

/// All spans of one phase on one row. `nanoseconds` is without the spans inside them: they count for their own phases.
struct PhaseTotal {
  std::string phase, row;
  int64_t spans = 0;
  int64_t nanoseconds = 0;
};

/// All transfers of one kind ("parameters") in one phase ("replicate") from one device (or rank) to another.
struct TransferTotal {
  std::string phase, kind, from, to;
  int64_t transfers = 0;
  int64_t bytes = 0;
};

/// Everything recorded between start() and take(), in order of first appearance.
struct Profile {
  int64_t steps = 0;
  int64_t nanoseconds = 0;               // of these steps
  std::vector<int64_t> step_nanoseconds;  // of each
  std::vector<PhaseTotal> phases;
  std::vector<TransferTotal> transfers;
  std::vector<std::pair<std::string, int64_t>> peak_bytes;  // most that tensors held on each device at once; devices with none left out
  std::vector<SpanRecord> spans;  // only if start() was told to keep them
  int64_t spans_dropped = 0;      // beyond the limit

  /// Bytes of all transfers of a phase and, if given, a kind.
  int64_t bytes(const std::string& phase, const std::string& kind = "") const;
  /// Nanoseconds of a phase on all rows.
  int64_t time(const std::string& phase) const;
};

/// Collects. Any thread may record; start, take and step_done belong to the thread that trains.
class Recorder {
 public:
  /// Spans kept for a trace at most: some 20 MB of memory.
  static constexpr size_t span_limit = 200'000;

  /// Forgets what was recorded and begins anew; the peaks of memory start from what tensors hold now.
  void start(bool keep_spans = false);
  /// Ends the recording and returns it.
  Profile take();
  /// A training step is done; the time since the one before (or since recording went on) is its own.
  void step_done();

  void add_span(const char* phase, Device device, const char* lane, int64_t begin, int64_t end, int64_t own);
  void add_transfer(const char* phase, const char* kind, std::string from, std::string to, int64_t bytes);

 private:
  friend class RecordingPaused;
  void note_peaks();
  static void reset_peaks();

  std::mutex mutex_;
  Profile profile_;
  std::map<std::pair<std::string, std::string>, size_t> phase_index_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, size_t> transfer_index_;
  bool keep_spans_ = false;
  int64_t step_begin_ = 0;
};

Recorder& recorder();

namespace detail {
inline std::atomic<bool> recording = false;
}

/// True while a profile is taken.
inline bool recording() { return detail::recording.load(std::memory_order_relaxed); }

/// Nanoseconds of the machine's steady clock.
int64_t steady_nanoseconds();

/// Counts a transfer; on one and the same device nothing moves and nothing is counted.
void count_transfer(const char* phase, const char* kind, Device from, Device to, int64_t bytes);
/// The same between ranks or other ends that have names of their own.
void count_transfer(const char* phase, const char* kind, const std::string& from, const std::string& to, int64_t bytes);

/// Records the time from here to the end of the scope as `phase` of `device`; on a GPU it waits at the end until the device is done
/// (not for a lane: communication overlaps). Spans on one thread nest. Without a phase (nullptr) nothing is recorded, and the time is
/// taken out of the enclosing span's: for waiting on threads that record their own spans. The texts must be literals.
class Span {
 public:
  Span(const char* phase, Device device, const char* lane = "") {
    if (recording()) begin(phase, device, lane);
  }
  ~Span() noexcept(false) {
    if (begin_ != 0) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// True if a span of that phase is open on this thread.
  static bool inside(const char* phase);

 private:
  void begin(const char* phase, Device device, const char* lane);
  void end();

  int64_t begin_ = 0;  // 0: nothing is recorded
  int64_t inner_ = 0;  // time of the spans inside
  const char* phase_ = nullptr;
  const char* lane_ = nullptr;
  Device device_;
  Span* outer_ = nullptr;
  int exceptions_ = 0;
};

/// Nothing is recorded in this scope: evaluation is no part of a step.
class RecordingPaused {
 public:
  RecordingPaused();
  ~RecordingPaused();
  RecordingPaused(const RecordingPaused&) = delete;
  RecordingPaused& operator=(const RecordingPaused&) = delete;

 private:
  bool was_on_;
  int64_t begin_;
};

}  // namespace miniddp
