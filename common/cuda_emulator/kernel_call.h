// Launching a kernel. Like CUDA's own, cudaLaunchKernelEx is a template, so it needs no <<<>>> and no special compiler.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/cuda_emulator/host_api.h"

namespace miniddp::emulator {

/// A kernel with its arguments: run_thread(state) is one CUDA thread. Copies share the arguments, so a graph can launch it
/// again and again.
struct KernelCall {
  const void* function = nullptr;
  void (*run_thread)(const void* state) = nullptr;
  std::shared_ptr<const void> state;
};

/// `pointers` are the arguments that are pointers: each must be device or pinned memory that the device may use.
cudaError_t launch(const cudaLaunchConfig_t& config, KernelCall call, const std::vector<const void*>& pointers);
cudaError_t set_max_dynamic_shared(const void* function, int bytes);

template <class... Parameters>
struct BoundKernel {
  void (*kernel)(Parameters...);
  std::tuple<std::remove_cvref_t<Parameters>...> arguments;

  static void run_thread(const void* state) {
    const auto* self = static_cast<const BoundKernel*>(state);
    std::apply(self->kernel, self->arguments);
  }
};

template <class T>
void note_pointer(std::vector<const void*>& pointers, const T& argument) {
  if constexpr (std::is_pointer_v<T>) pointers.push_back(reinterpret_cast<const void*>(argument));
}

}  // namespace miniddp::emulator

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  using Bound = miniddp::emulator::BoundKernel<Parameters...>;
  auto bound = std::make_shared<Bound>(Bound{kernel, {std::forward<Arguments>(arguments)...}});
  std::vector<const void*> pointers;
  std::apply([&](const auto&... each) { (miniddp::emulator::note_pointer(pointers, each), ...); }, bound->arguments);
  return miniddp::emulator::launch(
      *config, {reinterpret_cast<const void*>(kernel), &Bound::run_thread, std::move(bound)}, pointers);
}

template <class Function>
cudaError_t cudaFuncSetAttribute(Function* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;  // a hint: nothing to do
  return miniddp::emulator::set_max_dynamic_shared(reinterpret_cast<const void*>(kernel), value);
}
