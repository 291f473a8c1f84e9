// NCCL's functions: what they check, and groups.
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "common/cuda_emulator/communicator.h"
#include "common/cuda_emulator/memory.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/settings.h"
#include "common/cuda_emulator/stream.h"

using namespace miniddp::emulator;

struct ncclComm {
  std::shared_ptr<Communicator> communicator;  // operations in streams hold it too
};

namespace {

/// What a group holds for one communicator and stream: it runs as one operation.
struct Batch {
  ncclComm_t comm;
  cudaStream_t handle;
  std::vector<std::function<void()>> collectives;
  std::vector<Transfer> transfers;
};
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;  // of a call in the group
  std::vector<Batch> batches;
  std::vector<ncclComm_t*> joining;
};
thread_local Group group;

Batch& batch_of(ncclComm_t comm, cudaStream_t stream) {
  for (Batch& batch : group.batches)
    if (batch.comm == comm && batch.handle == stream) return batch;
  return group.batches.emplace_back(Batch{comm, stream, {}, {}});
}

/// Puts a batch into its stream. NCCL's work does not wait for the host to ask: with lazy streams it is demanded.
ncclResult_t start(Batch batch) {
  const auto communicator = batch.comm->communicator;
  std::shared_ptr<Stream> stream;
  {
    const int before = current_device();
    set_current_device(communicator->device());  // null is that device's default stream
    const auto error = find_stream(batch.handle, stream);
    set_current_device(before);
    if (error) return report(ncclUnhandledCudaError, "no such stream");
  }
  if (stream->device() != communicator->device())
    return report(ncclUnhandledCudaError, "the communicator is on device " + std::to_string(communicator->device()) +
                                              ", the stream on device " + std::to_string(stream->device()));
  std::uint64_t ticket = 0;
  const auto error = enqueue(
      *stream,
      [communicator, collectives = std::move(batch.collectives), transfers = std::move(batch.transfers)] {
        for (const auto& collective : collectives) collective();
        if (!transfers.empty()) communicator->run(transfers);
      },
      &ticket);
  if (error) return report(ncclUnhandledCudaError, cudaGetErrorName(error));
  stream->demand(ticket);
  return ncclSuccess;
}

/// One thread that calls for several ranks, one after the other, waits in the first call for the second: on a GPU that
/// hangs as soon as a launch blocks.
ncclResult_t check_thread(const Communicator& communicator) {
  static auto* last = new std::map<std::string, std::pair<std::thread::id, int>>;  // by communicator: who called last
  static auto* mutex = new std::mutex;
  Quiet quiet;
  std::lock_guard lock(*mutex);
  auto& [thread, rank] = (*last)[communicator.name()];
  if (thread == std::this_thread::get_id() && rank != communicator.rank())
    return report(ncclInvalidUsage, "one thread calls for ranks " + std::to_string(rank) + " and " +
                                        std::to_string(communicator.rank()) +
                                        ": that needs ncclGroupStart and ncclGroupEnd around the calls");
  thread = std::this_thread::get_id();
  rank = communicator.rank();
  return ncclSuccess;
}

ncclResult_t check_memory(const Communicator& communicator, const char* what, const void* pointer, std::size_t bytes) {
  const std::string why = why_unusable(pointer, bytes, communicator.device());
  if (why.empty()) return ncclSuccess;
  char text[32];
  std::snprintf(text, sizeof text, " (%p) ", pointer);
  return report(ncclInvalidArgument, "rank " + std::to_string(communicator.rank()) + ": " + what + text + why);
}

/// A communicator that could not be made is none.
void discard(ncclComm_t* comm) {
  (*comm)->communicator->abort();
  delete *comm;
  *comm = nullptr;
}

ncclResult_t in_group(ncclResult_t result) {
  if (group.depth > 0 && result != ncclSuccess) group.error = result;
  return result;
}

/// Adds work to the batch, and starts it unless a group is open.
template <class Add>
ncclResult_t submit(ncclComm_t comm, cudaStream_t stream, Add add) {
  if (group.depth > 0) {
    add(batch_of(comm, stream));
    return ncclSuccess;
  }
  if (auto result = check_thread(*comm->communicator)) return result;
  Batch batch{comm, stream, {}, {}};
  add(batch);
  return start(std::move(batch));
}

ncclResult_t collective(Call call, const void* send, void* receive, ncclComm_t comm, cudaStream_t stream) {
  if (!comm || size_of(call.type) == 0 || call.op < ncclSum || call.op > ncclAvg) return in_group(ncclInvalidArgument);
  const auto communicator = comm->communicator;
  if (communicator->error() != ncclSuccess) return in_group(communicator->error());
  if (call.root < 0 || call.root >= communicator->ranks()) return in_group(ncclInvalidArgument);
  const bool is_root = communicator->rank() == call.root;
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t all = bytes * static_cast<std::size_t>(communicator->ranks());
  if (call.kind != CallKind::broadcast || is_root)
    if (auto result = check_memory(*communicator, "what it sends", send, call.kind == CallKind::reduce_scatter ? all : bytes))
      return in_group(result);
  if (call.kind != CallKind::reduce || is_root)
    if (auto result = check_memory(*communicator, "where it receives", receive, call.kind == CallKind::all_gather ? all : bytes))
      return in_group(result);
  return in_group(submit(comm, stream, [&](Batch& batch) {
    batch.collectives.push_back([=] { communicator->run(call, static_cast<const char*>(send), static_cast<char*>(receive)); });
  }));
}

ncclResult_t transfer(bool sends, void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (!comm || size_of(type) == 0) return in_group(ncclInvalidArgument);
  const auto communicator = comm->communicator;
  if (communicator->error() != ncclSuccess) return in_group(communicator->error());
  if (peer < 0 || peer >= communicator->ranks()) return in_group(ncclInvalidArgument);
  const std::size_t bytes = count * size_of(type);
  if (auto result = check_memory(*communicator, sends ? "what it sends" : "where it receives", data, bytes))
    return in_group(result);
  return in_group(submit(comm, stream, [&](Batch& batch) {
    batch.transfers.push_back({sends, peer, static_cast<char*>(data), bytes});
  }));
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  static const char* const names[] = {"no error",         "unhandled CUDA error", "unhandled system error",
                                      "internal error",   "invalid argument",     "invalid usage",
                                      "remote rank lost", "in progress"};
  return result >= ncclSuccess && result <= ncclInProgress ? names[result] : "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) { return last_report(); }
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/miniddp-emulated-nccl-%d-%08x%08x", static_cast<int>(getpid()),
                random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (!comm || ranks < 1 || ranks > most_ranks || rank < 0 || rank >= ranks) return in_group(ncclInvalidArgument);
  if (settings().devices == 0) return in_group(ncclUnhandledCudaError);
  auto communicator = std::make_shared<Communicator>(id.internal, ranks, rank, current_device());
  *comm = new ncclComm{communicator};
  if (group.depth > 0) {
    group.joining.push_back(comm);
    return ncclSuccess;
  }
  const auto result = communicator->complete();
  if (result != ncclSuccess) discard(comm);
  return result;
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  const int before = current_device();
  ncclGroupStart();
  for (int i = 0; i < count; ++i) {
    if (cudaSetDevice(devices ? devices[i] : i)) {
      group.error = ncclUnhandledCudaError;
      break;
    }
    ncclCommInitRank(&comms[i], count, id, i);
  }
  set_current_device(before);
  return ncclGroupEnd();
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return comm ? ncclSuccess : ncclInvalidArgument; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  comm->communicator->abort();
  return ncclCommDestroy(comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!comm || !error) return ncclInvalidArgument;
  *error = comm->communicator->error();
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->communicator->ranks();
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->communicator->rank();
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->communicator->device();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  Group closed = std::exchange(group, {});
  if (closed.error != ncclSuccess) {  // nothing of the group runs
    for (ncclComm_t* comm : closed.joining) discard(comm);
    return closed.error;
  }
  ncclResult_t result = ncclSuccess;
  for (ncclComm_t* comm : closed.joining)
    if (auto failed = (*comm)->communicator->complete()) result = failed;
  if (result != ncclSuccess) {
    for (ncclComm_t* comm : closed.joining) discard(comm);
    return result;
  }
  if (settings().streams == StreamMode::eager && closed.batches.size() > 1) {
    // Eager operations run inside the call, and these wait for each other: a thread each.
    std::vector<std::thread> threads;
    std::vector<ncclResult_t> results(closed.batches.size(), ncclSuccess);
    for (std::size_t i = 0; i < closed.batches.size(); ++i)
      threads.emplace_back([&, i] { results[i] = start(std::move(closed.batches[i])); });
    for (auto& thread : threads) thread.join();
    for (const ncclResult_t each : results)
      if (each != ncclSuccess) result = each;
    return result;
  }
  for (Batch& batch : closed.batches)
    if (auto failed = start(std::move(batch))) result = failed;
  return result;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective({CallKind::all_reduce, count, type, op, 0}, send, receive, comm, stream);
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return collective({CallKind::reduce, count, type, op, root}, send, receive, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective({CallKind::broadcast, count, type, ncclSum, root}, send, receive, comm, stream);
}
ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective({CallKind::reduce_scatter, receive_count, type, op, 0}, send, receive, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective({CallKind::all_gather, send_count, type, ncclSum, 0}, send, receive, comm, stream);
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer(true, const_cast<void*>(send), count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer(false, receive, count, type, peer, comm, stream);
}
