// Streams and events.
#include <algorithm>
#include <set>

#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/settings.h"
#include "common/cuda_emulator/stream.h"

using namespace miniddp::emulator;

struct CUevent_st {
  int device;
  bool timing;
  std::shared_ptr<Mark> mark;  // of the last record
  CapturedPoint captured;      // if that record was part of a capture
};

namespace {

struct Events {
  std::mutex mutex;
  std::set<cudaEvent_t> alive;
};
Events& events() {
  static auto* instance = new Events;
  return *instance;
}

/// A copy of the event's state; cudaErrorInvalidResourceHandle if there is no such event.
cudaError_t look_at(cudaEvent_t handle, CUevent_st& event) {
  Quiet quiet;
  std::lock_guard lock(events().mutex);
  if (!events().alive.contains(handle)) return fail(cudaErrorInvalidResourceHandle);
  event = *handle;
  return cudaSuccess;
}

/// The host cannot wait for, or ask, an event that a graph will record.
cudaError_t look_at_uncaptured(cudaEvent_t handle, CUevent_st& event) {
  if (auto error = look_at(handle, event)) return error;
  return event.captured.capture ? fail(cudaErrorCapturedEvent) : cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (!stream || flags > cudaStreamNonBlocking) return fail(cudaErrorInvalidValue);
  if (settings().devices == 0) return fail(cudaErrorNoDevice);
  *stream = create_stream(current_device(), flags != cudaStreamNonBlocking);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;  // CUDA's answer for a device that has no priorities
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return destroy_stream(stream); }

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  if (auto error = refuse_while_capturing(*stream)) return error;
  stream->wait_all();
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  if (auto error = refuse_while_capturing(*stream)) return error;
  return stream->idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  CUevent_st event;
  if (auto error = look_at(event_handle, event)) return error;
  if (event.captured.capture) return join_capture(*stream, event.captured);
  if (!event.mark) return cudaSuccess;  // never recorded: nothing to wait for
  if (is_capturing(*stream)) {
    refuse_while_capturing(*stream);
    return fail(cudaErrorStreamCaptureIsolation);
  }
  return enqueue(*stream, [mark = event.mark] { mark->wait(); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  if (!function) return fail(cudaErrorInvalidValue);
  return enqueue(*stream, [=] { function(argument); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (!event) return fail(cudaErrorInvalidValue);
  if (settings().devices == 0) return fail(cudaErrorNoDevice);
  *event = new CUevent_st{current_device(), !(flags & cudaEventDisableTiming), nullptr, {}};
  Quiet quiet;
  std::lock_guard lock(events().mutex);
  events().alive.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  {
    Quiet quiet;
    std::lock_guard lock(events().mutex);
    if (events().alive.erase(event) == 0) return fail(cudaErrorInvalidResourceHandle);
  }
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(stream_handle, stream)) return error;
  CUevent_st event;
  if (auto error = look_at(handle, event)) return error;
  if (stream->device() != event.device)
    return fail(cudaErrorInvalidResourceHandle, "an event of device %d cannot be recorded in a stream of device %d",
                event.device, stream->device());
  event.captured = captured_point(*stream);
  event.mark = nullptr;
  if (!event.captured.capture) {
    event.mark = std::make_shared<Mark>();
    std::uint64_t ticket = 0;
    if (auto error = enqueue(*stream, [mark = event.mark] { mark->set(); }, &ticket)) return error;
    event.mark->place(*stream, ticket);
  }
  Quiet quiet;
  std::lock_guard lock(events().mutex);
  if (events().alive.contains(handle)) *handle = event;
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  CUevent_st event;
  if (auto error = look_at_uncaptured(handle, event)) return error;
  if (event.mark) event.mark->wait();
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  CUevent_st event;
  if (auto error = look_at_uncaptured(handle, event)) return error;
  return !event.mark || event.mark->ready() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  CUevent_st from;
  CUevent_st to;
  if (auto error = look_at_uncaptured(start, from)) return error;
  if (auto error = look_at_uncaptured(end, to)) return error;
  if (!from.timing || !to.timing || !from.mark || !to.mark || from.device != to.device)
    return fail(cudaErrorInvalidResourceHandle);
  if (!from.mark->ready() || !to.mark->ready()) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to.mark->time() - from.mark->time()).count();
  return cudaSuccess;
}
