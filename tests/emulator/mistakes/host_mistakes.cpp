// Mistakes of host code: order between streams, who owns memory, which device.
#include "tests/emulator/mistakes/mistakes.h"

namespace miniddp::testing {
namespace {

constexpr int n = 1 << 12;

cudaStream_t new_stream() {
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
cudaEvent_t new_event() {
  cudaEvent_t event;
  must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

/// Device 0 computes, a peer copy brings the result to device 1, which goes on.
Outcome pipeline(bool waits) {
  must(cudaSetDevice(0));
  float *a = filled(n, 1), *b = filled(n, 1);
  const cudaStream_t first = new_stream();
  const cudaEvent_t done = new_event();
  for (int i = 0; i < 4; ++i) add(n, a, b, first);
  must(cudaEventRecord(done, first));
  must(cudaSetDevice(1));
  float* c = filled(n, 0);
  const cudaStream_t second = new_stream();
  if (waits) must(cudaStreamWaitEvent(second, done, 0));
  must(cudaMemcpyPeerAsync(c, 1, b, 0, n * sizeof(float), second));
  add(n, c, c, second);
  Outcome outcome{std::vector<float>(n), std::vector<float>(n, 10)};
  must(cudaMemcpyAsync(outcome.found.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost, second));
  must(cudaStreamSynchronize(second));
  return outcome;
}

Outcome pinned_copy(bool waits) {
  const cudaStream_t stream = new_stream();
  float *x = filled(n, 1), *y = filled(n, 1), *host = nullptr;
  must(cudaMallocHost(&host, n * sizeof(float)));
  for (int i = 0; i < n; ++i) host[i] = 0;
  add(n, x, y, stream);
  must(cudaMemcpyAsync(host, y, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
  if (waits) must(cudaStreamSynchronize(stream));
  return {std::vector<float>(host, host + n), std::vector<float>(n, 2)};
}

/// Memory that one stream allocates is written by another.
Outcome early_use(bool waits) {
  const cudaStream_t owner = new_stream(), user = new_stream();
  const cudaEvent_t allocated = new_event();
  float *x = nullptr, *ones = filled(n, 1);
  must(cudaMallocAsync(&x, n * sizeof(float), owner));
  must(cudaEventRecord(allocated, owner));
  if (waits) must(cudaStreamWaitEvent(user, allocated, 0));
  must(cudaMemcpyAsync(x, ones, n * sizeof(float), cudaMemcpyDeviceToDevice, user));
  must(cudaStreamSynchronize(user));
  must(cudaStreamSynchronize(owner));
  return {values_of(x, n), std::vector<float>(n, 1)};
}

/// Memory is freed in one stream while another one still uses it.
Outcome early_free(bool waits) {
  const cudaStream_t owner = new_stream(), user = new_stream();
  const cudaEvent_t used = new_event();
  float *x = nullptr, *y = filled(n, 1);
  must(cudaMallocAsync(&x, n * sizeof(float), owner));
  must(cudaMemsetAsync(x, 0, n * sizeof(float), owner));
  must(cudaStreamSynchronize(owner));
  add(n, x, y, user);
  must(cudaEventRecord(used, user));
  if (waits) must(cudaStreamWaitEvent(owner, used, 0));
  must(cudaFreeAsync(x, owner));
  must(cudaStreamSynchronize(owner));
  must(cudaStreamSynchronize(user));
  return {values_of(y, n), std::vector<float>(n, 1)};
}

/// A captured branch must wait for what it reads.
Outcome graph_branches(bool waits) {
  const cudaStream_t main = new_stream(), side = new_stream();
  const cudaEvent_t fork = new_event(), middle = new_event(), join = new_event();
  float *x = filled(n, 1), *y = filled(n, 1), *z = filled(n, 0);
  must(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
  must(cudaEventRecord(fork, main));
  must(cudaStreamWaitEvent(side, fork, 0));
  add(n, x, y, main);  // y = 2
  must(cudaEventRecord(middle, main));
  if (waits) must(cudaStreamWaitEvent(side, middle, 0));
  add(n, y, z, side);  // z = y
  must(cudaEventRecord(join, side));
  must(cudaStreamWaitEvent(main, join, 0));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  must(cudaStreamEndCapture(main, &graph));
  must(cudaGraphInstantiate(&exec, graph, 0));
  must(cudaGraphLaunch(exec, main));
  must(cudaStreamSynchronize(main));
  return {values_of(z, n), std::vector<float>(n, 2)};
}

Outcome host_read() {
  float* x = filled(n, 1);
  volatile float value = x[3];  // right on a GPU is only a copy
  return {{value}, {1}};
}

Outcome other_devices_stream() {
  must(cudaSetDevice(1));
  const cudaStream_t stream = new_stream();
  must(cudaSetDevice(0));
  float *x = filled(n, 1), *y = filled(n, 1);
  add(n, x, y, stream);
  return {values_of(y, n), std::vector<float>(n, 2)};
}

Outcome other_devices_memory() {
  must(cudaSetDevice(1));
  float* x = filled(n, 1);
  must(cudaSetDevice(0));
  float* y = filled(n, 1);
  add(n, x, y, nullptr);
  return {values_of(y, n), std::vector<float>(n, 2)};
}

Outcome host_pointer() {
  std::vector<float> x(n, 1);
  float* y = filled(n, 1);
  add(n, x.data(), y, nullptr);
  return {values_of(y, n), std::vector<float>(n, 2)};
}

Outcome freed_pointer() {
  float *x = filled(n, 1), *y = filled(n, 1);
  must(cudaFree(x));
  add(n, x, y, nullptr);
  return {values_of(y, n), std::vector<float>(n, 2)};
}

Outcome copy_past_the_end() {
  float* x = filled(n, 1);
  std::vector<float> values(n + 1);
  must(cudaMemcpy(values.data(), x, (n + 1) * sizeof(float), cudaMemcpyDeviceToHost));
  return {values, std::vector<float>(n + 1, 1)};
}

}  // namespace

Catalogue host_mistakes() {
  return {
      {"right/two streams", [] { return pipeline(true); }},
      {"no wait between two streams", [] { return pipeline(false); }},
      {"right/pinned memory", [] { return pinned_copy(true); }},
      {"pinned memory read too early", [] { return pinned_copy(false); }},
      {"right/allocation in a stream", [] { return early_use(true); }},
      {"memory used before its allocation", [] { return early_use(false); }},
      {"right/free in a stream", [] { return early_free(true); }},
      {"memory freed while in use", [] { return early_free(false); }},
      {"right/graph", [] { return graph_branches(true); }},
      {"no wait between two branches of a graph", [] { return graph_branches(false); }},
      {"host reads device memory", host_read},
      {"launch into another device's stream", other_devices_stream},
      {"another device's memory without peer access", other_devices_memory},
      {"host memory passed to a kernel", host_pointer},
      {"freed memory passed to a kernel", freed_pointer},
      {"a copy past the end", copy_past_the_end},
      {"an empty grid",
       [] {
         must([] {
           cudaLaunchConfig_t config{};
           config.gridDim = dim3(0);
           config.blockDim = dim3(32);
           return cudaLaunchKernelEx(&config, +[](int) {}, 0);
         }());
         return Outcome{};
       }},
  };
}

}  // namespace miniddp::testing
