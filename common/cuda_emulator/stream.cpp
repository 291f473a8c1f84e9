#include "common/cuda_emulator/stream.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "common/cuda_emulator/grid_runner.h"
#include "common/cuda_emulator/memory.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/settings.h"

namespace miniddp::emulator {
namespace {

std::atomic<bool> program_ends{false};

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<CUstream_st>> streams;  // the first ones are the devices' default streams
  std::uint64_t created = 0;
};

/// At the end of the program operations that wait in queues must not touch what is being destroyed.
void abandon_all();

Registry& registry() {
  static Registry* instance = [] {
    auto* r = new Registry;  // never destroyed: its threads outlive main()
    for (int d = 0; d < settings().devices; ++d)
      r->streams.push_back(std::make_shared<CUstream_st>(d, true, r->created++));
    std::atexit(abandon_all);
    return r;
  }();
  return *instance;
}

void abandon_all() {
  program_ends = true;
  std::vector<std::shared_ptr<CUstream_st>> all;
  {
    std::lock_guard lock(registry().mutex);
    all = registry().streams;
  }
  for (auto& stream : all) stream->abandon();
}

}  // namespace

// ---- one stream

Stream::Stream(int device, bool blocking, std::uint64_t number)
    : device_(device), blocking_(blocking), random_(settings().delay_seed * 0x9e3779b97f4a7c15u + number) {}

void Stream::start_worker() {
  has_worker_ = true;
  std::thread([self = shared_from_this()] { self->work(); }).detach();
}

void Stream::run(Operation& operation) {
  DeviceAccess access;
  operation();
}

void Stream::pause() {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const auto draw = static_cast<unsigned>(random_ >> 33);
  if (draw % 2) std::this_thread::sleep_for(std::chrono::microseconds(draw / 2 % 2000));
}

void Stream::work() {
  set_current_device(device_);
  const StreamMode mode = settings().streams;
  for (;;) {
    Entry entry;
    {
      Quiet quiet;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        return closing_ || abandoned_ || (!queue_.empty() && (mode != StreamMode::lazy || finished_ < demanded_));
      });
      if (queue_.empty() || abandoned_) break;
      entry = std::move(queue_.front());
      queue_.pop_front();
    }
    if (mode == StreamMode::delay) pause();
    acquire(entry.token);
    run(entry.operation);
    release(this);
    Quiet quiet;
    entry.operation = nullptr;
    delete entry.token;
    std::lock_guard lock(mutex_);
    ++finished_;
    changed_.notify_all();
  }
  forget_fibers(this);
  Quiet quiet;
  std::lock_guard lock(mutex_);
  has_worker_ = false;
  changed_.notify_all();
}

std::uint64_t Stream::push(Operation operation) {
  if (settings().streams == StreamMode::eager) {
    std::lock_guard order(eager_);
    run(operation);
    std::lock_guard lock(mutex_);
    finished_ = ++pushed_;
    return pushed_;
  }
  char* token = new char;
  release(token);
  Quiet quiet;
  std::lock_guard lock(mutex_);
  if (abandoned_) {
    delete token;
    return pushed_;
  }
  if (!has_worker_) start_worker();
  queue_.push_back({std::move(operation), token});
  changed_.notify_all();
  return ++pushed_;
}

std::uint64_t Stream::last_ticket() {
  Quiet quiet;
  std::lock_guard lock(mutex_);
  return pushed_;
}

void Stream::demand(std::uint64_t ticket) {
  Quiet quiet;
  std::lock_guard lock(mutex_);
  demanded_ = std::max(demanded_, ticket);
  changed_.notify_all();
}

void Stream::wait(std::uint64_t ticket) {
  {
    Quiet quiet;
    std::unique_lock lock(mutex_);
    demanded_ = std::max(demanded_, ticket);
    changed_.notify_all();
    changed_.wait(lock, [&] { return finished_ >= ticket || abandoned_; });
  }
  acquire(this);
}

bool Stream::idle() {
  bool idle;
  {
    Quiet quiet;
    std::lock_guard lock(mutex_);
    demanded_ = std::max(demanded_, pushed_);
    changed_.notify_all();
    idle = finished_ == pushed_;
  }
  if (idle) acquire(this);
  return idle;
}

bool Stream::pending() {
  Quiet quiet;
  std::lock_guard lock(mutex_);
  return finished_ != pushed_;
}

std::shared_ptr<Mark> Stream::push_mark() {
  auto mark = std::make_shared<Mark>();
  mark->place(*this, push([mark] { mark->set(); }));
  return mark;
}

void Stream::close() {
  wait_all();
  Quiet quiet;
  std::unique_lock lock(mutex_);
  closing_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !has_worker_; });
}

void Stream::abandon() {
  std::unique_lock lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
  // The operation that runs now may end; one that waits for something that will not come is left alone.
  changed_.wait_for(lock, std::chrono::seconds(2), [&] { return !has_worker_; });
}

// ---- marks

void Mark::place(Stream& stream, std::uint64_t ticket) {
  stream_ = stream.weak_from_this();
  ticket_ = ticket;
}

void Mark::set() {
  release(this);
  Quiet quiet;
  std::lock_guard lock(mutex_);
  time_ = std::chrono::steady_clock::now();
  done_ = true;
  changed_.notify_all();
}

void Mark::wait() {
  {
    Quiet quiet;
    if (auto stream = stream_.lock()) stream->demand(ticket_);
    std::unique_lock lock(mutex_);
    while (!done_ && !program_ends) changed_.wait_for(lock, std::chrono::milliseconds(500));
  }
  acquire(this);
}

bool Mark::ready() {
  bool done;
  {
    Quiet quiet;
    if (auto stream = stream_.lock()) stream->demand(ticket_);
    std::lock_guard lock(mutex_);
    done = done_;
  }
  if (done) acquire(this);
  return done;
}

// ---- all streams

cudaError_t find_stream(cudaStream_t handle, std::shared_ptr<Stream>& stream, bool on_current_device) {
  if (settings().devices == 0) return fail(cudaErrorNoDevice);
  if (!handle) {
    stream = default_stream(current_device());
    return cudaSuccess;
  }
  Quiet quiet;
  std::lock_guard lock(registry().mutex);
  for (auto& each : registry().streams) {
    if (each.get() != handle) continue;
    if (on_current_device && each->device() != current_device())
      return fail(cudaErrorInvalidResourceHandle,
                  "the stream belongs to device %d, but device %d is the current one", each->device(), current_device());
    stream = each;
    return cudaSuccess;
  }
  return fail(cudaErrorInvalidResourceHandle);
}

std::shared_ptr<Stream> default_stream(int device) {
  Quiet quiet;
  std::lock_guard lock(registry().mutex);
  return registry().streams[device];
}

std::vector<std::shared_ptr<Stream>> streams_of(int device) {
  Quiet quiet;
  std::lock_guard lock(registry().mutex);
  std::vector<std::shared_ptr<Stream>> found;
  for (auto& stream : registry().streams)
    if (stream->device() == device) found.push_back(stream);
  return found;
}

cudaStream_t create_stream(int device, bool blocking) {
  Quiet quiet;
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.streams.push_back(std::make_shared<CUstream_st>(device, blocking, r.created++));
  return r.streams.back().get();
}

cudaError_t destroy_stream(cudaStream_t handle) {
  std::shared_ptr<Stream> stream;
  if (!handle) return fail(cudaErrorInvalidResourceHandle);
  if (auto error = find_stream(handle, stream)) return error;
  stream->close();
  Quiet quiet;
  std::lock_guard lock(registry().mutex);
  std::erase_if(registry().streams, [&](auto& each) { return each == stream; });
  return cudaSuccess;
}

cudaError_t enqueue(Stream& stream, Operation operation, std::uint64_t* ticket) {
  if (ticket) *ticket = 0;
  bool captured = false;
  if (auto error = capture_operation(stream, operation, captured)) return error;
  if (captured) return cudaSuccess;
  if (stream.blocking()) {
    const Stream* legacy = default_stream(stream.device()).get();
    for (auto& other : streams_of(stream.device())) {
      if (!other->blocking() || other.get() == &stream || (&stream != legacy && other.get() != legacy)) continue;
      // With nothing pending there is nothing to wait for, but the race detector must still hear of the order.
      if (!race_detector && !other->pending()) continue;
      auto mark = other->push_mark();
      stream.push([mark] { mark->wait(); });
    }
  }
  const std::uint64_t number = stream.push(std::move(operation));
  if (ticket) *ticket = number;
  return cudaSuccess;
}

}  // namespace miniddp::emulator
