// Streams, events, copies and stream-ordered memory. The same file runs on real GPUs.
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/emulator/device_buffer.h"
#include "tests/emulator/kernels/kernels.h"
#include "tests/emulator/needs_devices.h"
#include "tests/support/catch.h"

namespace miniddp::testing {
namespace {

/// A stream that waits for no default stream, on the current device.
struct TestStream {
  TestStream() { check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~TestStream() { cudaStreamDestroy(handle); }
  operator cudaStream_t() const { return handle; }
  cudaStream_t handle = nullptr;
};

struct TestEvent {
  explicit TestEvent(unsigned flags = cudaEventDisableTiming) { check(cudaEventCreateWithFlags(&handle, flags)); }
  ~TestEvent() { cudaEventDestroy(handle); }
  operator cudaEvent_t() const { return handle; }
  cudaEvent_t handle = nullptr;
};

template <class T>
struct Pinned {
  explicit Pinned(std::size_t n) : size(n) { check(cudaMallocHost(&data, n * sizeof(T))); }
  ~Pinned() { cudaFreeHost(data); }
  T* data = nullptr;
  std::size_t size;
};

}  // namespace

TEST_CASE("streams: two devices, a peer copy and an event between them") {
  NEEDS_DEVICES(2);
  const int n = 1 << 14;
  const std::vector<float> ones(n, 1.0f);
  check(cudaSetDevice(0));
  const DeviceBuffer<float> a(ones), b(ones);
  const TestStream first;
  const TestEvent done;
  check(cudaSetDevice(1));
  const DeviceBuffer<float> c(n);
  const TestStream second;
  check(cudaSetDevice(0));
  for (int i = 0; i < 4; ++i) saxpy(n, 1.0f, a.get(), b.get(), first);
  check(cudaEventRecord(done, first));
  check(cudaSetDevice(1));
  check(cudaStreamWaitEvent(second, done, 0));
  check(cudaMemcpyPeerAsync(c.get(), 1, b.get(), 0, n * sizeof(float), second));
  saxpy(n, 1.0f, c.get(), c.get(), second);
  std::vector<float> result(n);
  check(cudaMemcpyAsync(result.data(), c.get(), n * sizeof(float), cudaMemcpyDeviceToHost, second));
  check(cudaStreamSynchronize(second));
  check(cudaSetDevice(0));
  CHECK(result == std::vector<float>(n, 10.0f));
}

TEST_CASE("streams: the default stream waits for blocking streams, and they for it") {
  NEEDS_DEVICES(1);
  const int n = 50000;
  const std::vector<float> ones(n, 1.0f);
  const DeviceBuffer<float> x(ones), y(ones);
  cudaStream_t blocking;
  check(cudaStreamCreate(&blocking));
  for (int i = 0; i < 3; ++i) {
    saxpy(n, 1.0f, x.get(), y.get(), blocking);
    saxpy(n, 1.0f, x.get(), y.get(), nullptr);
  }
  saxpy(n, 2.0f, x.get(), y.get(), blocking);
  CHECK(y.values() == std::vector<float>(n, 9.0f));  // its cudaMemcpy is work of the default stream
  check(cudaStreamDestroy(blocking));
}

TEST_CASE("streams: pinned copies are done after a synchronise, pageable ones at once") {
  NEEDS_DEVICES(1);
  const int n = 10007;
  const TestStream stream;
  std::vector<float> source = random_floats(n, 11);
  const std::vector<float> original = source;
  const DeviceBuffer<float> device(n);
  check(cudaMemcpyAsync(device.get(), source.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
  for (float& value : source) value = -7;  // pageable memory was staged
  const Pinned<float> pinned(n);
  check(cudaMemcpyAsync(pinned.data, device.get(), n * sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  CHECK(std::vector<float>(pinned.data, pinned.data + n) == original);
  std::vector<float> pageable(n);
  check(cudaMemcpyAsync(pageable.data(), device.get(), n * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK(pageable == original);
}

TEST_CASE("streams: cudaMemcpy2DAsync moves rows of a larger matrix") {
  NEEDS_DEVICES(1);
  const int rows = 7, columns = 13, part = 5;
  const auto source = random_floats(rows * columns, 12);
  const DeviceBuffer<float> matrix(source), rest(std::vector<float>(rows * part, 0));
  check(cudaMemcpy2DAsync(rest.get(), part * sizeof(float), matrix.get() + 3, columns * sizeof(float),
                          part * sizeof(float), rows, cudaMemcpyDeviceToDevice, nullptr));
  const auto found = rest.values();
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < part; ++c) REQUIRE(found[r * part + c] == source[r * columns + 3 + c]);
}

TEST_CASE("streams: memory in stream order") {
  NEEDS_DEVICES(1);
  const int n = 30011;
  const TestStream stream;
  const std::vector<float> ones(n, 1.0f);
  std::vector<float> result(n);
  for (int round = 0; round < 5; ++round) {
    float* x = nullptr;
    float* y = nullptr;
    check(cudaMallocAsync(&x, n * sizeof(float), stream));
    check(cudaMallocAsync(&y, n * sizeof(float), stream));
    check(cudaMemcpyAsync(x, ones.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
    check(cudaMemsetAsync(y, 0, n * sizeof(float), stream));
    saxpy(n, 3.0f, x, y, stream);
    check(cudaFreeAsync(x, stream));
    check(cudaMemcpyAsync(result.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    check(cudaFreeAsync(y, stream));
    check(cudaStreamSynchronize(stream));
    REQUIRE(result == std::vector<float>(n, 3.0f));
  }
  int device = 0;
  cudaMemPool_t pool;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetDefaultMemPool(&pool, device));
  unsigned long long threshold = ~0ull;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
}

TEST_CASE("streams: events tell time and when they are done") {
  NEEDS_DEVICES(1);
  const int n = 100000;
  const std::vector<float> ones(n, 1.0f);
  const DeviceBuffer<float> x(ones), y(ones);
  const TestStream stream;
  const TestEvent start(cudaEventDefault), end(cudaEventDefault);
  check(cudaEventRecord(start, stream));
  for (int i = 0; i < 5; ++i) saxpy(n, 1.0f, x.get(), y.get(), stream);
  check(cudaEventRecord(end, stream));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  cudaError_t status = cudaErrorNotReady;
  while (status == cudaErrorNotReady && std::chrono::steady_clock::now() < limit) {
    status = cudaEventQuery(end);  // asking again and again must end, with lazy streams too
    std::this_thread::yield();
  }
  REQUIRE(status == cudaSuccess);
  float milliseconds = -1;
  check(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds > 0);
}

TEST_CASE("streams: host functions run in order") {
  NEEDS_DEVICES(1);
  const TestStream stream;
  std::vector<int> seen;
  using Seen = std::vector<int>;
  check(cudaLaunchHostFunc(stream, [](void* p) { static_cast<Seen*>(p)->push_back(1); }, &seen));
  check(cudaLaunchHostFunc(stream, [](void* p) { static_cast<Seen*>(p)->push_back(2); }, &seen));
  check(cudaStreamSynchronize(stream));
  CHECK(seen == Seen{1, 2});
}

TEST_CASE("streams: an event may outlive its stream") {
  NEEDS_DEVICES(1);
  const TestEvent event;
  {
    const TestStream stream;
    check(cudaEventRecord(event, stream));
  }
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
}

TEST_CASE("streams: several host threads use one device") {
  NEEDS_DEVICES(1);
  const int n = 20011;
  std::vector<float> worst(4, 1e9f);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&worst, t] {
      const TestStream stream;
      const DeviceBuffer<float> x(std::vector<float>(n, 1.0f)), y(std::vector<float>(n, float(t)));
      check(cudaStreamSynchronize(nullptr));
      for (int i = 0; i < 3; ++i) saxpy(n, 1.0f, x.get(), y.get(), stream);
      check(cudaStreamSynchronize(stream));
      worst[t] = 0;
      for (const float value : y.values()) worst[t] = std::max(worst[t], std::abs(value - (t + 3.0f)));
    });
  for (auto& thread : threads) thread.join();
  CHECK(worst == std::vector<float>(4, 0.0f));
}

}  // namespace miniddp::testing
