// CUDA's rules for host code on one GPU: what is refused, and with which code. The emulator promises these codes, so the
// file runs on a real GPU too.
#include "tests/emulator/device_buffer.h"
#include "tests/emulator/kernels/kernels.h"
#include "tests/emulator/needs_devices.h"
#include "tests/support/catch.h"

namespace miniddp::testing {
namespace {

/// The code of a call, without leaving it behind for the next.
cudaError_t taken(cudaError_t status) {
  cudaGetLastError();
  return status;
}

}  // namespace

TEST_CASE("rules: sizes of grids and blocks") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> buffer(16);
  const auto launch = [&](dim3 grid, dim3 block) { return taken(try_launch(grid, block, 0, nullptr, buffer.get())); };
  CHECK(launch(1, 32) == cudaSuccess);
  CHECK(launch(1, 1024) == cudaSuccess);
  CHECK(launch(dim3(1, 65535, 1), 1) == cudaSuccess);
  CHECK(launch(dim3(0), 32) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1, 0, 1), 32) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, dim3(0)) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, 1025) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, dim3(32, 33)) == cudaErrorInvalidConfiguration);
  CHECK(launch(1, dim3(1, 1, 65)) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1, 65536, 1), 1) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1, 1, 65536), 1) == cudaErrorInvalidConfiguration);
  check(cudaDeviceSynchronize());
}

TEST_CASE("rules: dynamic shared memory beyond 48 KiB must be asked for") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> buffer(16);
  check(allow_dynamic_shared(48 << 10));
  CHECK(taken(try_launch(1, 32, 48 << 10, nullptr, buffer.get())) == cudaSuccess);
  CHECK(taken(try_launch(1, 32, (48 << 10) + 16, nullptr, buffer.get())) == cudaErrorInvalidValue);
  CHECK(taken(allow_dynamic_shared(64 << 10)) == cudaSuccess);
  CHECK(taken(try_launch(1, 32, (48 << 10) + 16, nullptr, buffer.get())) == cudaSuccess);
  CHECK(taken(allow_dynamic_shared(1 << 20)) == cudaErrorInvalidValue);
  check(cudaDeviceSynchronize());
}

TEST_CASE("rules: devices that do not exist") {
  NEEDS_DEVICES(1);
  CHECK(taken(cudaSetDevice(99)) == cudaErrorInvalidDevice);
  CHECK(taken(cudaSetDevice(-1)) == cudaErrorInvalidDevice);
  int device = -1;
  check(cudaGetDevice(&device));
  CHECK(device == 0);
  CHECK(taken(cudaDeviceEnablePeerAccess(0, 0)) == cudaErrorInvalidDevice);
}

TEST_CASE("rules: copies name the right direction") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> buffer(16);
  int host = 0;
  CHECK(taken(cudaMemcpy(buffer.get(), &host, sizeof host, cudaMemcpyHostToDevice)) == cudaSuccess);
  CHECK(taken(cudaMemcpy(buffer.get(), &host, sizeof host, cudaMemcpyDefault)) == cudaSuccess);
  CHECK(taken(cudaMemcpy(buffer.get(), &host, sizeof host, static_cast<cudaMemcpyKind>(9))) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(taken(cudaMemcpy(buffer.get(), &host, 0, cudaMemcpyHostToDevice)) == cudaSuccess);
}

TEST_CASE("rules: memory is freed once, and there is an end to it") {
  NEEDS_DEVICES(1);
  void* memory = nullptr;
  CHECK(taken(cudaMalloc(&memory, std::size_t{1} << 50)) == cudaErrorMemoryAllocation);
  CHECK(taken(cudaMalloc(&memory, 4096)) == cudaSuccess);
  CHECK(taken(cudaFree(memory)) == cudaSuccess);
  CHECK(taken(cudaFree(memory)) == cudaErrorInvalidValue);
  CHECK(taken(cudaFree(nullptr)) == cudaSuccess);
  CHECK(taken(cudaMallocHost(&memory, 4096)) == cudaSuccess);
  CHECK(taken(cudaFreeHost(memory)) == cudaSuccess);
}

TEST_CASE("rules: the last error is kept until somebody takes it") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> buffer(16);
  CHECK(try_launch(dim3(0), 32, 0, nullptr, buffer.get()) == cudaErrorInvalidConfiguration);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("rules: events need timing to tell time, and a record") {
  NEEDS_DEVICES(1);
  cudaEvent_t timed, untimed;
  check(cudaEventCreate(&timed));
  check(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  float milliseconds = 0;
  CHECK(taken(cudaEventElapsedTime(&milliseconds, timed, timed)) == cudaErrorInvalidResourceHandle);
  CHECK(taken(cudaEventQuery(timed)) == cudaSuccess);  // never recorded: nothing to wait for
  check(cudaEventRecord(timed, nullptr));
  check(cudaEventRecord(untimed, nullptr));
  check(cudaDeviceSynchronize());
  CHECK(taken(cudaEventElapsedTime(&milliseconds, timed, untimed)) == cudaErrorInvalidResourceHandle);
  CHECK(taken(cudaEventElapsedTime(&milliseconds, timed, timed)) == cudaSuccess);
  check(cudaEventDestroy(timed));
  check(cudaEventDestroy(untimed));
}

TEST_CASE("rules: where a pointer lies") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> buffer(16);
  int host = 0;
  void* pinned = nullptr;
  check(cudaMallocHost(&pinned, 64));
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, buffer.get() + 3));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 0);
  check(cudaPointerGetAttributes(&attributes, pinned));
  CHECK(attributes.type == cudaMemoryTypeHost);
  check(cudaPointerGetAttributes(&attributes, &host));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  check(cudaFreeHost(pinned));
}

TEST_CASE("rules: a failed launch names its line, device and grid") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> out(16);
  std::string message;
  try {
    places(dim3(1, 70000), dim3(32), out.get(), nullptr);
  } catch (const DeviceError& error) {
    message = error.what();
  }
  for (const char* part : {"places", "kernels.cu", "cuda:0", "(1, 70000, 1)", "(32, 1, 1)", "cudaErrorInvalidConfiguration"})
    CHECK_THAT(message, Catch::Matchers::ContainsSubstring(part));
}

}  // namespace miniddp::testing
