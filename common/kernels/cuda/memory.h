// Memory of a device while a step is captured (graph.cpp): not for anybody else.
#pragma once

#include <cstddef>
#include <memory>

namespace miniddp::cuda {

/// Blocks that belong to a captured graph. A graph runs with the addresses it was captured with, so its memory must not be
/// given to anybody else between two launches. Blocks go round within the graph, as stream order allows.
class GraphMemory;

/// Until the end of the scope, memory of `device` comes from a new GraphMemory, and memory from elsewhere that is given back
/// is freed only afterwards: a captured cudaFreeAsync would be part of the graph.
class CaptureMemory {
 public:
  explicit CaptureMemory(int device);
  ~CaptureMemory();
  CaptureMemory(const CaptureMemory&) = delete;
  CaptureMemory& operator=(const CaptureMemory&) = delete;

  /// To be kept as long as the graph.
  std::shared_ptr<GraphMemory> memory() const { return memory_; }

 private:
  int device_;
  std::shared_ptr<GraphMemory> memory_;
};

}  // namespace miniddp::cuda
