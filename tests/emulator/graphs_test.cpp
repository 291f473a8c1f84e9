// Stream capture and graph launches. The same file runs on a real GPU.
#include "tests/emulator/device_buffer.h"
#include "tests/emulator/kernels/kernels.h"
#include "tests/emulator/needs_devices.h"
#include "tests/support/catch.h"

namespace miniddp::testing {
namespace {

struct Streams {  // two streams of one device with an event to fork and one to join
  Streams() {
    for (auto* stream : {&main, &side}) check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (auto* event : {&fork, &join}) check(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  ~Streams() {
    for (auto stream : {main, side}) cudaStreamDestroy(stream);
    for (auto event : {fork, join}) cudaEventDestroy(event);
  }
  cudaStream_t main = nullptr, side = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
};

cudaGraphExec_t finish(cudaStream_t stream, unsigned long long flags = 0) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, flags));
  check(cudaGraphDestroy(graph));
  return exec;
}

}  // namespace

TEST_CASE("graphs: capturing runs nothing, each launch runs all of it") {
  NEEDS_DEVICES(1);
  const int n = 5003;
  const Streams s;
  const DeviceBuffer<float> x(std::vector<float>(n, 1.0f)), y(std::vector<float>(n, 0.0f));
  check(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(s.main, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  saxpy(n, 2.0f, x.get(), y.get(), s.main);
  saxpy(n, 1.0f, x.get(), y.get(), s.main);
  cudaGraphExec_t exec = finish(s.main);
  CHECK(y.values() == std::vector<float>(n, 0.0f));
  for (int i = 0; i < 3; ++i) check(cudaGraphLaunch(exec, s.main));
  check(cudaStreamSynchronize(s.main));
  CHECK(y.values() == std::vector<float>(n, 9.0f));
  check(cudaGraphExecDestroy(exec));
}

TEST_CASE("graphs: branches fork and join by events") {
  NEEDS_DEVICES(1);
  const int n = 3001;
  const Streams s;
  const DeviceBuffer<float> x(std::vector<float>(n, 1.0f)), y(std::vector<float>(n, 0.0f)), z(std::vector<float>(n, 0.0f));
  check(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
  saxpy(n, 1.0f, x.get(), y.get(), s.main);  // y += 1
  check(cudaEventRecord(s.fork, s.main));
  check(cudaStreamWaitEvent(s.side, s.fork, 0));
  saxpy(n, 10.0f, y.get(), z.get(), s.side);  // z += 10 y, beside:
  saxpy(n, 1.0f, x.get(), x.get(), s.main);   // x *= 2
  check(cudaEventRecord(s.join, s.side));
  check(cudaStreamWaitEvent(s.main, s.join, 0));
  saxpy(n, 1.0f, x.get(), z.get(), s.main);  // z += x
  cudaGraphExec_t exec = finish(s.main);
  check(cudaGraphLaunch(exec, s.main));  // y = 1, z = 10 + 2, x = 2
  check(cudaGraphLaunch(exec, s.main));  // y = 3, z = 12 + 30 + 4, x = 4
  check(cudaStreamSynchronize(s.main));
  CHECK(z.values() == std::vector<float>(n, 46.0f));
  check(cudaGraphExecDestroy(exec));
}

TEST_CASE("graphs: memory allocated and freed within the capture") {
  NEEDS_DEVICES(1);
  const int n = 3001;
  const Streams s;
  const DeviceBuffer<float> x(std::vector<float>(n, 1.0f)), y(std::vector<float>(n, 0.0f));
  check(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
  float* temporary = nullptr;
  check(cudaMallocAsync(&temporary, n * sizeof(float), s.main));
  check(cudaMemsetAsync(temporary, 0, n * sizeof(float), s.main));
  saxpy(n, 2.0f, x.get(), temporary, s.main);
  saxpy(n, 1.0f, temporary, y.get(), s.main);
  check(cudaFreeAsync(temporary, s.main));
  cudaGraphExec_t exec = finish(s.main);
  for (int i = 0; i < 4; ++i) check(cudaGraphLaunch(exec, s.main));
  check(cudaStreamSynchronize(s.main));
  CHECK(y.values() == std::vector<float>(n, 8.0f));
  check(cudaGraphExecDestroy(exec));
}

TEST_CASE("graphs: memory that outlives a launch must be freed before the next") {
  NEEDS_DEVICES(1);
  const Streams s;
  for (const bool frees : {false, true}) {
    check(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    float* result = nullptr;
    check(cudaMallocAsync(&result, 40, s.main));
    check(cudaMemsetAsync(result, 0, 40, s.main));
    cudaGraphExec_t exec = finish(s.main, frees ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0);
    check(cudaGraphLaunch(exec, s.main));
    check(cudaStreamSynchronize(s.main));
    CHECK(cudaGraphLaunch(exec, s.main) == (frees ? cudaSuccess : cudaErrorInvalidValue));
    cudaGetLastError();
    check(cudaStreamSynchronize(s.main));
    check(cudaFreeAsync(result, s.main));
    check(cudaStreamSynchronize(s.main));
    check(cudaGraphExecDestroy(exec));
  }
}

TEST_CASE("graphs: waiting during a capture loses it") {
  NEEDS_DEVICES(1);
  const Streams s;
  check(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaStreamSynchronize(s.main) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.main, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  cudaGetLastError();
}

TEST_CASE("graphs: a branch that never joins is an error") {
  NEEDS_DEVICES(1);
  const Streams s;
  const DeviceBuffer<float> x(std::vector<float>(100, 1.0f));
  check(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
  check(cudaEventRecord(s.fork, s.main));
  check(cudaStreamWaitEvent(s.side, s.fork, 0));
  saxpy(100, 1.0f, x.get(), x.get(), s.side);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.main, &graph) == cudaErrorStreamCaptureUnjoined);
  cudaGetLastError();
}

}  // namespace miniddp::testing
