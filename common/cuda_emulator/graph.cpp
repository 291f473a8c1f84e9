#include "common/cuda_emulator/graph.h"

#include <algorithm>
#include <random>

#include "common/cuda_emulator/block_runner.h"
#include "common/cuda_emulator/memory.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/settings.h"
#include "common/cuda_emulator/stream.h"

namespace miniddp::emulator {
namespace {

struct Captures {
  std::mutex mutex;
  std::vector<std::weak_ptr<Capture>> under_way;
};
Captures& captures() {
  static auto* instance = new Captures;
  return *instance;
}

class Locked {
 public:
  Locked() : lock_(captures().mutex) {}

 private:
  Quiet quiet_;
  std::lock_guard<std::mutex> lock_;
};

/// With the lock held.
std::size_t record(Stream& stream, Operation operation) {
  CaptureState& state = stream.capture;
  const std::size_t node = state.capture->graph->add(std::move(operation), state.tail);
  state.tail = {node};
  return node;
}

/// A node of the race detector's own logical thread: it has seen what its dependencies have done, and no more.
void run_detected(const Graph::Node& node, std::vector<char>& tokens, std::size_t index) {
  void* self = current_tsan_fiber();
  void* fiber = new_tsan_fiber();
  switch_tsan_fiber(fiber);
  acquire(&tokens.back());
  for (const std::size_t before : node.after) acquire(&tokens[before]);
  node.run();
  release(&tokens[index]);
  switch_tsan_fiber(self);
  delete_tsan_fiber(fiber);
}

}  // namespace

// ---- the graph

Graph::~Graph() {
  for (void* pointer : memory) release_memory(pointer, MemoryKind::device);
}

std::size_t Graph::add(Operation run, std::vector<std::size_t> after) {
  nodes.push_back({std::move(run), std::move(after)});
  return nodes.size() - 1;
}

bool Graph::depends(std::size_t node, std::size_t on) const {
  std::vector<bool> reached(nodes.size());
  reached[node] = true;
  for (std::size_t i = node + 1; i-- > 0;)  // dependencies have smaller numbers
    if (reached[i])
      for (const std::size_t before : nodes[i].after) reached[before] = true;
  return reached[on];
}

void Graph::run() const {
  const Order order = settings().order;
  std::minstd_rand random(static_cast<unsigned>(order.seed + 1));
  std::vector<std::size_t> missing(nodes.size());
  std::vector<std::size_t> ready;
  std::vector<char> tokens(nodes.size() + 1);  // one a node, and the start
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    if (missing[i] == 0) ready.push_back(i);
  }
  release(&tokens.back());
  while (!ready.empty()) {
    std::sort(ready.begin(), ready.end());
    std::size_t place = 0;
    if (order.kind == Order::reverse) place = ready.size() - 1;
    if (order.kind == Order::shuffle) place = random() % ready.size();
    const std::size_t current = ready[place];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(place));
    if (race_detector)
      run_detected(nodes[current], tokens, current);
    else
      nodes[current].run();
    for (std::size_t i = current + 1; i < nodes.size(); ++i)
      for (const std::size_t before : nodes[i].after)
        if (before == current && --missing[i] == 0) ready.push_back(i);
  }
  if (race_detector)
    for (char& token : tokens) acquire(&token);
}

// ---- recording

cudaError_t capture_operation(Stream& stream, const Operation& operation, bool& captured) {
  Locked locked;
  captured = stream.capture.capture != nullptr;
  if (captured) {
    if (stream.capture.capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
    record(stream, operation);
    return cudaSuccess;
  }
  // The legacy default stream would wait for the captured stream, which runs nothing now.
  if (default_stream(stream.device()).get() != &stream) return cudaSuccess;
  for (auto& weak : captures().under_way) {
    auto capture = weak.lock();
    if (!capture) continue;
    for (auto& weak_stream : capture->streams) {
      auto other = weak_stream.lock();
      if (!other || !other->blocking() || other->device() != stream.device()) continue;
      capture->broken = true;
      return fail(cudaErrorStreamCaptureImplicit);
    }
  }
  return cudaSuccess;
}

CapturedPoint captured_point(Stream& stream) {
  Locked locked;
  return stream.capture;
}

cudaError_t join_capture(Stream& stream, const CapturedPoint& point) {
  Locked locked;
  if (point.capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
  CaptureState& state = stream.capture;
  if (!state.capture) {
    state = point;
    point.capture->streams.push_back(stream.weak_from_this());
    return cudaSuccess;
  }
  if (state.capture != point.capture) {
    state.capture->broken = point.capture->broken = true;
    return fail(cudaErrorStreamCaptureMerge);
  }
  for (const std::size_t node : point.tail)
    if (std::find(state.tail.begin(), state.tail.end(), node) == state.tail.end()) state.tail.push_back(node);
  return cudaSuccess;
}

bool is_capturing(Stream& stream) {
  Locked locked;
  return stream.capture.capture != nullptr;
}

cudaError_t refuse_while_capturing(Stream& stream) {
  Locked locked;
  if (!stream.capture.capture) return cudaSuccess;
  stream.capture.capture->broken = true;
  return fail(cudaErrorStreamCaptureUnsupported);
}

cudaError_t refuse_during_captures() {
  Locked locked;
  for (auto& weak : captures().under_way) {
    auto capture = weak.lock();
    if (!capture || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    capture->broken = true;
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

// ---- memory of a graph

cudaError_t capture_allocation(Stream& stream, void** pointer, std::size_t bytes) {
  Locked locked;
  Graph& graph = *stream.capture.capture->graph;
  if (auto error = allocate(pointer, bytes, stream.device(), MemoryKind::device, &graph)) return fail(error);
  if (!*pointer) return cudaSuccess;
  graph.memory.push_back(*pointer);
  graph.unfreed.insert(*pointer);
  record(stream, [p = *pointer, bytes] { fill_unwritten(p, bytes); });
  return cudaSuccess;
}

cudaError_t capture_free(Stream& stream, void* pointer) {
  Locked locked;
  Graph& graph = *stream.capture.capture->graph;
  const auto allocation = find_allocation(pointer);
  if (!allocation || allocation->start != pointer || allocation->owner != &graph || graph.unfreed.erase(pointer) == 0)
    return fail(cudaErrorInvalidValue, "cudaFreeAsync in a captured stream: %p was not allocated in this capture", pointer);
  mark_used(pointer, false);
  record(stream, [pointer, bytes = allocation->bytes] { fill_unwritten(pointer, bytes); });
  return cudaSuccess;
}

void note_graph_memory_freed(const void* graph, void* pointer) {
  Locked locked;
  mark_used(pointer, false);
  const_cast<Graph*>(static_cast<const Graph*>(graph))->live.erase(pointer);
}

}  // namespace miniddp::emulator

using namespace miniddp::emulator;

struct CUgraph_st {
  std::shared_ptr<Graph> graph;
};
struct CUgraphExec_st {
  std::shared_ptr<Graph> graph;
  bool frees_on_launch = false;
};

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  if (!handle) return fail(cudaErrorStreamCaptureUnsupported);  // the legacy default stream cannot be captured
  Locked locked;
  if (stream->capture.capture) return fail(cudaErrorIllegalState);
  auto capture = std::make_shared<Capture>();
  capture->graph = std::make_shared<Graph>();
  capture->origin = stream.get();
  capture->streams = {stream};
  capture->mode = mode;
  stream->capture = {capture, {}};
  captures().under_way.push_back(capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  Locked locked;
  auto capture = stream->capture.capture;
  if (!capture) return fail(cudaErrorIllegalState);
  if (capture->origin != stream.get()) {
    capture->broken = true;
    return fail(cudaErrorStreamCaptureUnmatched);
  }
  // Work of a stream that joined must come back: the origin must depend on the last of it.
  bool joined = true;
  for (auto& weak : capture->streams) {
    auto member = weak.lock();
    if (!member) continue;
    for (const std::size_t node : member->capture.tail)
      joined &= std::any_of(stream->capture.tail.begin(), stream->capture.tail.end(),
                            [&](std::size_t last) { return capture->graph->depends(last, node); });
    if (member != stream) member->capture = {};
  }
  stream->capture = {};
  std::erase_if(captures().under_way, [&](auto& weak) { return weak.lock() == capture || weak.expired(); });
  if (capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
  if (!joined) return fail(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{capture->graph};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  Locked locked;
  const auto& capture = stream->capture.capture;
  *status = !capture          ? cudaStreamCaptureStatusNone
            : capture->broken ? cudaStreamCaptureStatusInvalidated
                              : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes) return fail(cudaErrorNotSupported);  // only the number is known here
  *count = graph->graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  if (!graph) return fail(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{graph->graph, (flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0};
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) { return exec ? cudaSuccess : fail(cudaErrorInvalidValue); }

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  if (!exec) return fail(cudaErrorInvalidValue);
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  {
    Locked locked;
    Graph& graph = *exec->graph;
    if (!graph.live.empty() && !exec->frees_on_launch)
      return fail(cudaErrorInvalidValue,
                  "cudaGraphLaunch: memory that the graph's last launch allocated has not been freed; "
                  "instantiate it with cudaGraphInstantiateFlagAutoFreeOnLaunch");
    graph.live = graph.unfreed;
    for (void* pointer : graph.live) mark_used(pointer, true);
  }
  return enqueue(*stream, [graph = exec->graph] { graph->run(); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
