// Device memory for tests, and the checks that fail a test instead of returning codes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "common/kernels/cuda/launch.h"

namespace miniddp::testing {

inline void check(cudaError_t status, std::source_location where = std::source_location::current()) {
  cuda::check_cuda(status, "a CUDA call", where);
}

/// n elements on the current device, unset or a copy of a vector. Copies wait.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t n) : size_(n) { check(cudaMalloc(&data_, n * sizeof(T))); }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) {
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* get() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> copy(size_);
    check(cudaMemcpy(copy.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

inline std::vector<float> random_floats(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(generator);
  return values;
}

template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

}  // namespace miniddp::testing
