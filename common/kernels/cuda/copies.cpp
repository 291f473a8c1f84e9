// Copies between a GPU and the host, within a GPU, and between two GPUs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/kernels/cuda/cuda_kernels.h"
#include "common/kernels/cuda/launch.h"

namespace miniddp {
namespace cuda {
namespace {

struct Rows {
  void* dst;
  size_t dst_pitch;
  const void* src;
  size_t src_pitch, width, rows;

  /// Rows without gaps are one long row.
  void join() {
    if (width != dst_pitch || width != src_pitch) return;
    width *= rows;
    dst_pitch = src_pitch = width;
    rows = 1;
  }
};

void copy(const Rows& r, cudaMemcpyKind kind, cudaStream_t stream) {
  if (r.rows == 1) {
    check_cuda(cudaMemcpyAsync(r.dst, r.src, r.width, kind, stream), "cudaMemcpyAsync");
  } else {
    check_cuda(cudaMemcpy2DAsync(r.dst, r.dst_pitch, r.src, r.src_pitch, r.width, r.rows, kind, stream), "cudaMemcpy2DAsync");
  }
}

/// What is enqueued on `later` from now on waits for what is enqueued on `earlier` now.
void order_after(int later_device, cudaStream_t later, int earlier_device, cudaStream_t earlier) {
  cudaEvent_t event;
  {
    const DeviceGuard guard(earlier_device);
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check_cuda(cudaEventRecord(event, earlier), "cudaEventRecord");
  }
  const DeviceGuard guard(later_device);
  check_cuda(cudaStreamWaitEvent(later, event), "cudaStreamWaitEvent");
  check_cuda(cudaEventDestroy(event), "cudaEventDestroy");  // allowed at once: CUDA keeps it as long as it is needed
}

/// Through the host's memory: for machines whose direct copies are wrong.
void copy_by_host(void* dst, int dst_device, const void* src, int src_device, size_t bytes) {
  std::vector<char> staged(bytes);
  {
    const DeviceGuard guard(src_device);
    const cudaStream_t stream = compute_stream(src_device);
    check_cuda(cudaMemcpyAsync(staged.data(), src, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  const DeviceGuard guard(dst_device);
  check_cuda(cudaMemcpyAsync(dst, staged.data(), bytes, cudaMemcpyHostToDevice, compute_stream(dst_device)), "cudaMemcpyAsync");
}

/// Directly, by the destination's compute stream; CUDA itself goes through the host where the GPUs cannot reach each other.
void copy_by_peer(void* dst, int dst_device, const void* src, int src_device, size_t bytes) {
  const cudaStream_t to = compute_stream(dst_device), from = compute_stream(src_device);
  order_after(dst_device, to, src_device, from);
  {
    const DeviceGuard guard(dst_device);
    check_cuda(cudaMemcpyPeerAsync(dst, dst_device, src, src_device, bytes, to), "cudaMemcpyPeerAsync");
  }
  order_after(src_device, from, dst_device, to);  // the source must not be overwritten or freed before
}

/// Some machines report success and deliver rubbish (an IOMMU or a driver in the way). So the first copy of a pair of
/// devices is a test.
bool peer_copies_arrive(int dst_device, int src_device) {
  constexpr size_t bytes = 1 << 16;
  std::vector<unsigned char> sent(bytes), received(bytes);
  for (size_t i = 0; i < bytes; ++i) sent[i] = static_cast<unsigned char>((i * 2654435761u) >> 13);
  const Scratch<unsigned char> src(bytes, src_device), dst(bytes, dst_device);
  {
    const DeviceGuard guard(src_device);
    check_cuda(cudaMemcpyAsync(src.data(), sent.data(), bytes, cudaMemcpyHostToDevice, compute_stream(src_device)), "cudaMemcpyAsync");
  }
  copy_by_peer(dst.data(), dst_device, src.data(), src_device, bytes);
  const DeviceGuard guard(dst_device);
  check_cuda(cudaMemcpyAsync(received.data(), dst.data(), bytes, cudaMemcpyDeviceToHost, compute_stream(dst_device)), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(compute_stream(dst_device)), "cudaStreamSynchronize");
  return sent == received;
}

bool copies_go_by_peer(int dst_device, int src_device) {
  static std::mutex mutex;
  static auto* known = new std::map<std::pair<int, int>, bool>;
  std::lock_guard lock(mutex);
  const auto it = known->find({dst_device, src_device});
  if (it != known->end()) return it->second;
  const char* wish = std::getenv("MINIDDP_PEER_COPY");
  const bool forbidden = wish != nullptr && std::string(wish) == "host";
  const bool good = !forbidden && peer_copies_arrive(dst_device, src_device);
  if (!good) {
    std::fprintf(stderr, "Copies from cuda:%d to cuda:%d go through the host: %s\n", src_device, dst_device,
                 forbidden ? "MINIDDP_PEER_COPY=host" : "direct ones arrive damaged");
  }
  return known->emplace(std::pair(dst_device, src_device), good).first->second;
}

void copy_between(const Rows& r, int dst_device, int src_device) {
  const auto send = copies_go_by_peer(dst_device, src_device) ? copy_by_peer : copy_by_host;
  if (r.rows == 1) return send(r.dst, dst_device, r.src, src_device, r.width);
  // Rows with gaps are packed before the journey and unpacked after it.
  const size_t bytes = r.width * r.rows;
  const Scratch<char> packed(static_cast<int64_t>(bytes), src_device), arrived(static_cast<int64_t>(bytes), dst_device);
  {
    const DeviceGuard guard(src_device);
    copy({packed.data(), r.width, r.src, r.src_pitch, r.width, r.rows}, cudaMemcpyDeviceToDevice, compute_stream(src_device));
  }
  send(arrived.data(), dst_device, packed.data(), src_device, bytes);
  const DeviceGuard guard(dst_device);
  copy({r.dst, r.dst_pitch, arrived.data(), r.width, r.width, r.rows}, cudaMemcpyDeviceToDevice, compute_stream(dst_device));
}

}  // namespace
}  // namespace cuda

void CudaKernels::copy_rows(void* dst, Device dst_device, size_t dst_pitch, const void* src, Device src_device, size_t src_pitch,
                            size_t width, size_t rows) {
  if (width == 0 || rows == 0) return;
  cuda::Rows r{dst, dst_pitch, src, src_pitch, width, rows};
  r.join();
  const bool from_gpu = src_device.type == DeviceType::cuda, to_gpu = dst_device.type == DeviceType::cuda;
  check<DeviceError>(from_gpu || to_gpu, "expected a copy from or to a GPU, found {} to {}", src_device.str(), dst_device.str());
  if (!from_gpu) {
    // From pageable memory: CUDA has taken the bytes when the call returns.
    const cuda::OnDeviceOf on(dst_device);
    return cuda::copy(r, cudaMemcpyHostToDevice, on.stream);
  }
  const cuda::OnDeviceOf on(src_device);
  if (!to_gpu) {
    cuda::copy(r, cudaMemcpyDeviceToHost, on.stream);
    return cuda::wait_for_compute(src_device.index);  // the host reads the result next
  }
  if (dst_device == src_device) return cuda::copy(r, cudaMemcpyDeviceToDevice, on.stream);
  cuda::copy_between(r, dst_device.index, src_device.index);
}

}  // namespace miniddp
