#include "common/core/recorder.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "common/kernels/kernels.h"
#include "common/tensor/storage.h"

namespace miniddp {
namespace {

thread_local Span* innermost = nullptr;

std::vector<Device> all_devices() {
  std::vector<Device> devices;
  for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda}) {
    for (int i = 0; i < device_count(type); ++i) devices.push_back({type, i});
  }
  return devices;
}

}  // namespace

int64_t Profile::bytes(const std::string& phase, const std::string& kind) const {
  int64_t total = 0;
  for (const TransferTotal& each : transfers) {
    if (each.phase == phase && (kind.empty() || each.kind == kind)) total += each.bytes;
  }
  return total;
}

int64_t Profile::time(const std::string& phase) const {
  int64_t total = 0;
  for (const PhaseTotal& each : phases) {
    if (each.phase == phase) total += each.nanoseconds;
  }
  return total;
}

Recorder& recorder() {
  static auto* instance = new Recorder;  // leaked on purpose: workers may end after the static objects
  return *instance;
}

int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Recorder::start(bool keep_spans) {
  std::lock_guard lock(mutex_);
  profile_ = {};
  phase_index_.clear();
  transfer_index_.clear();
  keep_spans_ = keep_spans;
  reset_peaks();
  step_begin_ = steady_nanoseconds();
  detail::recording = true;
}

void Recorder::reset_peaks() {
  for (Device device : all_devices()) reset_peak_memory(device);
}

void Recorder::note_peaks() {
  for (Device device : all_devices()) {
    const int64_t peak = memory_stats(device).peak;
    if (peak == 0) continue;
    auto& all = profile_.peak_bytes;
    const auto known = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.first == device.str(); });
    if (known == all.end()) {
      all.emplace_back(device.str(), peak);
    } else {
      known->second = std::max(known->second, peak);
    }
  }
}

Profile Recorder::take() {
  const bool was_on = detail::recording.exchange(false);
  std::lock_guard lock(mutex_);
  if (was_on) note_peaks();
  return std::exchange(profile_, {});
}

void Recorder::step_done() {
  if (!recording()) return;
  std::lock_guard lock(mutex_);
  const int64_t now = steady_nanoseconds();
  profile_.step_nanoseconds.push_back(now - step_begin_);
  profile_.nanoseconds += now - step_begin_;
  ++profile_.steps;
  step_begin_ = now;
}

void Recorder::add_span(const char* phase, Device device, const char* lane, int64_t begin, int64_t end, int64_t own) {
  std::string row = device.str();
  if (*lane != '\0') row = row + " " + lane;
  std::lock_guard lock(mutex_);
  if (!recording()) return;
  const auto [place, is_new] = phase_index_.try_emplace({phase, row}, profile_.phases.size());
  if (is_new) profile_.phases.push_back({phase, row});
  PhaseTotal& total = profile_.phases[place->second];
  ++total.spans;
  total.nanoseconds += own;
  if (!keep_spans_) return;
  if (profile_.spans.size() < span_limit) {
    profile_.spans.push_back({phase, std::move(row), begin, end});
  } else {
    ++profile_.spans_dropped;
  }
}

void Recorder::add_transfer(const char* phase, const char* kind, std::string from, std::string to, int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!recording()) return;
  const auto [place, is_new] = transfer_index_.try_emplace({phase, kind, from, to}, profile_.transfers.size());
  if (is_new) profile_.transfers.push_back({phase, kind, std::move(from), std::move(to)});
  TransferTotal& total = profile_.transfers[place->second];
  ++total.transfers;
  total.bytes += bytes;
}

void count_transfer(const char* phase, const char* kind, Device from, Device to, int64_t bytes) {
  if (recording() && from != to) recorder().add_transfer(phase, kind, from.str(), to.str(), bytes);
}

void count_transfer(const char* phase, const char* kind, const std::string& from, const std::string& to, int64_t bytes) {
  if (recording()) recorder().add_transfer(phase, kind, from, to, bytes);
}

void Span::begin(const char* phase, Device device, const char* lane) {
  phase_ = phase;
  lane_ = lane;
  device_ = device;
  exceptions_ = std::uncaught_exceptions();
  outer_ = std::exchange(innermost, this);
  begin_ = steady_nanoseconds();
}

void Span::end() {
  innermost = outer_;
  const bool unwinding = std::uncaught_exceptions() > exceptions_;
  // Work on a GPU is only enqueued by now. What went wrong there is thrown from here, unless another error is on its way already.
  if (device_.type == DeviceType::cuda && *lane_ == '\0' && !unwinding) kernels(device_.type).synchronize(device_.index);
  const int64_t now = steady_nanoseconds();
  if (outer_ != nullptr) outer_->inner_ += now - begin_;
  if (phase_ != nullptr) recorder().add_span(phase_, device_, lane_, begin_, now, now - begin_ - inner_);
}

bool Span::inside(const char* phase) {
  for (const Span* span = innermost; span != nullptr; span = span->outer_) {
    if (span->phase_ != nullptr && std::strcmp(span->phase_, phase) == 0) return true;
  }
  return false;
}

RecordingPaused::RecordingPaused() : was_on_(detail::recording.exchange(false)), begin_(steady_nanoseconds()) {
  if (!was_on_) return;
  std::lock_guard lock(recorder().mutex_);
  recorder().note_peaks();
}

RecordingPaused::~RecordingPaused() {
  if (!was_on_) return;
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex_);
  Recorder::reset_peaks();
  all.step_begin_ += steady_nanoseconds() - begin_;
  detail::recording = true;
}

}  // namespace miniddp
