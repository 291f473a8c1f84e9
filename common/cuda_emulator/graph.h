// Stream capture: operations are recorded as nodes of a graph instead of being run; a launch runs them all, in any order
// that respects their dependencies.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "common/cuda_emulator/graph_api.h"

namespace miniddp::emulator {

using Operation = std::function<void()>;
class Stream;

class Graph {
 public:
  struct Node {
    Operation run;
    std::vector<std::size_t> after;  // nodes that must have run
  };
  ~Graph();

  std::size_t add(Operation run, std::vector<std::size_t> after);
  bool depends(std::size_t node, std::size_t on) const;
  void run() const;

  std::vector<Node> nodes;
  std::vector<void*> memory;     // cudaMallocAsync during the capture: the same addresses at every launch
  std::set<void*> unfreed;       // … and no cudaFreeAsync: stays allocated after a launch
  std::set<void*> live;          // … of the last launch, not freed since
};

/// A capture under way.
struct Capture {
  std::shared_ptr<Graph> graph;
  Stream* origin = nullptr;
  std::vector<std::weak_ptr<Stream>> streams;  // the origin and those that joined by waiting for its events
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool broken = false;
};

/// A stream's part in a capture: what it has recorded last.
struct CaptureState {
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tail;
};

/// What an event that was recorded during a capture stands for.
using CapturedPoint = CaptureState;

/// Records the operation if the stream is being captured, and says so in `captured`.
cudaError_t capture_operation(Stream& stream, const Operation& operation, bool& captured);
/// The point where a captured stream is now; no capture if it is not captured.
CapturedPoint captured_point(Stream& stream);
/// `stream` goes on after `point`, which makes it part of the capture.
cudaError_t join_capture(Stream& stream, const CapturedPoint& point);

bool is_capturing(Stream& stream);
/// For calls that make the host wait for the stream: cudaErrorStreamCaptureUnsupported, and the capture is lost.
cudaError_t refuse_while_capturing(Stream& stream);
/// For calls that CUDA forbids to everybody while any capture that is not relaxed is under way (cudaMalloc, …).
cudaError_t refuse_during_captures();

/// cudaMallocAsync and cudaFreeAsync in a captured stream.
cudaError_t capture_allocation(Stream& stream, void** pointer, std::size_t bytes);
cudaError_t capture_free(Stream& stream, void* pointer);
/// Memory of a graph was freed outside of it.
void note_graph_memory_freed(const void* graph, void* pointer);

}  // namespace miniddp::emulator
