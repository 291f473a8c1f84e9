// Copies and fills.
#include <cstring>
#include <memory>
#include <vector>

#include "common/cuda_emulator/memory.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/stream.h"

using namespace miniddp::emulator;

namespace {

struct Copy {
  char* dst;
  std::size_t dst_pitch;
  const char* src;
  std::size_t src_pitch;
  std::size_t width;   // bytes of a row
  std::size_t height;  // rows

  void run() const {
    if (dst_pitch == width && src_pitch == width) {
      std::memmove(dst, src, width * height);
      return;
    }
    for (std::size_t row = 0; row < height; ++row) std::memmove(dst + row * dst_pitch, src + row * src_pitch, width);
  }
  std::size_t dst_bytes() const { return (height - 1) * dst_pitch + width; }
  std::size_t src_bytes() const { return (height - 1) * src_pitch + width; }
};

/// Where one side of a copy lies.
struct Side {
  bool device = false;
  bool pageable = true;
};

/// cudaErrorInvalidValue if the copy leaves the memory that `pointer` points into, or that was freed.
cudaError_t look_at(const char* name, const void* pointer, std::size_t bytes, Side& side) {
  const auto allocation = find_allocation(pointer);
  if (!allocation) return cudaSuccess;
  side.device = allocation->kind == MemoryKind::device;
  side.pageable = false;
  if (allocation->freed) return fail(cudaErrorInvalidValue, "a copy's %s (%p) has been freed", name, pointer);
  const auto left = static_cast<std::size_t>(allocation->start + allocation->bytes - static_cast<const char*>(pointer));
  if (bytes > left)
    return fail(cudaErrorInvalidValue, "a copy of %zu bytes leaves its %s: %zu bytes follow %p", bytes, name, left, pointer);
  return cudaSuccess;
}

bool fits(cudaMemcpyKind kind, const Side& dst, const Side& src) {
  if (kind == cudaMemcpyDefault) return true;
  return dst.device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
         src.device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
}

/// Waits for the copy if `wait`, or if CUDA does.
cudaError_t start(Copy copy, cudaMemcpyKind kind, cudaStream_t handle, bool wait) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return fail(cudaErrorInvalidMemcpyDirection);
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (!copy.dst || !copy.src || copy.dst_pitch < copy.width || copy.src_pitch < copy.width)
    return fail(cudaErrorInvalidValue);
  Side dst;
  Side src;
  if (auto error = look_at("destination", copy.dst, copy.dst_bytes(), dst)) return error;
  if (auto error = look_at("source", copy.src, copy.src_bytes(), src)) return error;
  if (!fits(kind, dst, src)) return fail(cudaErrorInvalidValue);

  const bool capturing = is_capturing(*stream);
  std::uint64_t ticket = 0;
  if (src.pageable && !capturing) {
    // CUDA stages pageable memory before the call returns: the caller may change it at once.
    auto staged = std::make_shared<std::vector<char>>(copy.src, copy.src + copy.src_bytes());
    copy.src = staged->data();
    if (auto error = enqueue(*stream, [copy, staged = std::move(staged)] { copy.run(); }, &ticket)) return error;
  } else {
    if (auto error = enqueue(*stream, [copy] { copy.run(); }, &ticket)) return error;
  }
  if ((wait || dst.pageable) && !capturing) stream->wait(ticket);
  return cudaSuccess;
}

Copy plain(void* dst, const void* src, std::size_t bytes) {
  return {static_cast<char*>(dst), bytes, static_cast<const char*>(src), bytes, bytes, 1};
}

cudaError_t fill(void* pointer, int value, std::size_t bytes, cudaStream_t handle) {
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  if (bytes == 0) return cudaSuccess;
  const std::string why = why_unusable(pointer, bytes, stream->device());
  if (!why.empty()) return fail(cudaErrorInvalidValue, "cudaMemset: %p %s", pointer, why.c_str());
  return enqueue(*stream, [=] { std::memset(pointer, value, bytes); });
}

}  // namespace

cudaError_t cudaMemcpy(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind) {
  return start(plain(dst, src, bytes), kind, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return start(plain(dst, src, bytes), kind, stream, false);
}
cudaError_t cudaMemcpy2D(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                         std::size_t height, cudaMemcpyKind kind) {
  return start({static_cast<char*>(dst), dst_pitch, static_cast<const char*>(src), src_pitch, width, height}, kind,
               nullptr, true);
}
cudaError_t cudaMemcpy2DAsync(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return start({static_cast<char*>(dst), dst_pitch, static_cast<const char*>(src), src_pitch, width, height}, kind,
               stream, false);
}
// Peer copies need no peer access: without it CUDA goes through the host.
cudaError_t cudaMemcpyPeer(void* dst, int, const void* src, int, std::size_t bytes) {
  return start(plain(dst, src, bytes), cudaMemcpyDeviceToDevice, nullptr, true);
}
cudaError_t cudaMemcpyPeerAsync(void* dst, int, const void* src, int, std::size_t bytes, cudaStream_t stream) {
  return start(plain(dst, src, bytes), cudaMemcpyDeviceToDevice, stream, false);
}
cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) { return fill(pointer, value, bytes, nullptr); }
cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(pointer, value, bytes, stream);
}
