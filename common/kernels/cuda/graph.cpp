// Capturing a training step as a CUDA graph. A small network's step is dozens of kernels of a few microseconds each, and
// launching one costs as much as running it; a graph launches all of them with one call.
#include <cuda_runtime.h>

#include <functional>
#include <memory>

#include "common/core/generator.h"
#include "common/kernels/cuda/cuda_kernels.h"
#include "common/kernels/cuda/elementwise.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/memory.h"

namespace miniddp {
namespace cuda {
namespace {

class CudaGraph final : public CapturedWork {
 public:
  CudaGraph(int device, const std::function<void()>& work) : device_(device) {
    const OnDeviceOf on(Device{DeviceType::cuda, device});
    cublas_handle(device);  // made now: making it allocates
    Generator& generator = default_generator({DeviceType::cuda, device});
    first_call_ = generator.draws();
    const CaptureMemory memory(device);
    memory_ = memory.memory();
    // Relaxed: GraphMemory calls cudaMalloc meanwhile.
    check_cuda(cudaStreamBeginCapture(on.stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(on.stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check_cuda(cudaStreamEndCapture(on.stream, &graph),
               "cudaStreamEndCapture (a step that is captured must not wait for the GPU or read from it)");
    draws_ = generator.draws() - first_call_;
    const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "cudaGraphInstantiate");
  }

  ~CudaGraph() override {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);  // CUDA waits for a launch under way
  }

  void launch() override {
    const OnDeviceOf on(Device{DeviceType::cuda, device_});
    if (launched_ && draws_ > 0) {
      // The calls' numbers are in the graph; what changes from launch to launch is added by the kernels.
      Generator& generator = default_generator({DeviceType::cuda, device_});
      set_later_calls(on, generator.draws() - first_call_);
      for (uint64_t i = 0; i < draws_; ++i) generator.random();
    }
    check_cuda(cudaGraphLaunch(exec_, on.stream), "cudaGraphLaunch");
    if (launched_ && draws_ > 0) set_later_calls(on, 0);
    launched_ = true;
  }

 private:
  static void set_later_calls(const OnDeviceOf& on, uint64_t value) {
    cuda::fill(on.stream, 1, static_cast<int64_t>(value), reinterpret_cast<int64_t*>(on.state.later_calls));
  }

  int device_;
  std::shared_ptr<GraphMemory> memory_;
  cudaGraphExec_t exec_ = nullptr;
  uint64_t first_call_ = 0, draws_ = 0;  // of the device's default generator
  bool launched_ = false;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<CapturedWork> CudaKernels::capture(int device, const std::function<void()>& work) {
  return std::make_unique<cuda::CudaGraph>(device, work);
}

}  // namespace miniddp
