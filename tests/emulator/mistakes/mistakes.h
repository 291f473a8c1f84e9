// A catalogue of mistakes in CUDA code, and the right versions beside them. Each is run by its name; mistakes_test.cpp says
// what finds it.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace miniddp::testing {

struct Outcome {
  std::vector<float> found;
  std::vector<float> expected;
};
using Catalogue = std::map<std::string, std::function<Outcome()>>;

Catalogue kernel_mistakes();
Catalogue host_mistakes();

/// Ends the program with status 1 and CUDA's name for the error.
inline void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "error: %s\n", cudaGetErrorName(status));
  std::exit(1);
}

template <class... Parameters, class... Arguments>
void start(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
           Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  must(cudaLaunchKernelEx(&config, kernel, arguments...));
}

/// n floats of device memory, all `value`.
inline float* filled(int n, float value) {
  float* data = nullptr;
  const std::vector<float> values(n, value);
  must(cudaMalloc(&data, n * sizeof(float)));
  must(cudaMemcpy(data, values.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  return data;
}

inline std::vector<float> values_of(const float* data, int n) {
  std::vector<float> values(n);
  must(cudaMemcpy(values.data(), data, n * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

/// y += x; n elements, any grid.
void add(int n, const float* x, float* y, cudaStream_t stream);

}  // namespace miniddp::testing
