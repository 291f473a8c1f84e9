#include "chapters/04_process_group/nccl.h"

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>

#include "common/autograd/node.h"
#include "common/kernels/cuda/device.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/kernels.h"

namespace miniddp {

namespace {

using cuda::check_cuda;
using cuda::DeviceGuard;

void check_nccl(ncclResult_t result, std::string_view what, ncclComm_t comm = nullptr) {
  check<DistBackendError>(result == ncclSuccess || result == ncclInProgress, "{} failed: {} ({})", what, ncclGetErrorString(result),
                          ncclGetLastError(comm));
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return ncclFloat32;
    case DType::float64: return ncclFloat64;
    case DType::int64: return ncclInt64;
    case DType::uint8: return ncclUint8;
    case DType::float16: return ncclFloat16;
    case DType::bfloat16: return ncclBfloat16;
  }
  throw Error("unknown dtype {}", static_cast<int>(dtype));
}

ncclRedOp_t type_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::avg: return ncclSum;  // divided first, by submit()
    case ReduceOp::product: return ncclProd;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
    default: throw Error("Cannot use ReduceOp {} with NCCL: use gloo or ring", name_of(op));
  }
}

/// What the caller and the watchdog know of one operation.
class NcclWork : public Work {
 public:
  NcclWork(Collective collective, Device device, int64_t bytes)
      : collective_(std::move(collective)), device_(device), bytes_(bytes), start_(Clock::now()), deadline_(collective_.timeout) {
    const DeviceGuard guard(device.index);
    check_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  ~NcclWork() override { cudaEventDestroy(done_); }

  bool is_completed() const override {
    const std::lock_guard lock(mutex_);
    return finished_ || cudaEventQuery(done_) == cudaSuccess;
  }

  void wait() override {
    const bool on_host = collective_.kind == CollectiveKind::barrier;
    do {
      throw_failure();
      if (!on_host) {
        const DeviceGuard guard(device_.index);
        check_cuda(cudaStreamWaitEvent(cuda::compute_stream(device_.index), done_, 0), "cudaStreamWaitEvent");
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      // The event alone does not tell whether NCCL gave up: the watchdog asks it, and then says finish().
    } while (!is_finished());
    throw_failure();
  }
  bool is_finished() const {
    const std::lock_guard lock(mutex_);
    return finished_;
  }

  Clock::time_point start_time() const override { return start_; }
  Clock::time_point end_time() const override {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  int64_t bytes_sent() const override { return bytes_; }

  const Collective& collective() const { return collective_; }
  cudaEvent_t done() const { return done_; }
  bool late() const { return deadline_.passed(); }
  void finish(const std::string& failure) {
    const std::lock_guard lock(mutex_);
    end_ = Clock::now();
    finished_ = true;
    failure_ = failure;
  }

 private:
  void throw_failure() const {
    const std::lock_guard lock(mutex_);
    check<DistBackendError>(failure_.empty(), "{}", failure_);
  }

  Collective collective_;  // keeps the tensors while NCCL works on them
  Device device_;
  int64_t bytes_;
  Clock::time_point start_, end_{};
  Deadline deadline_;
  cudaEvent_t done_ = nullptr;
  mutable std::mutex mutex_;
  bool finished_ = false;
  std::string failure_;
};

/// Several NCCL calls as one operation: without it one rank's sends and receives could wait for each other.
class NcclGroup {
 public:
  NcclGroup() { check_nccl(ncclGroupStart(), "ncclGroupStart"); }
  ~NcclGroup() noexcept(false) {
    const ncclResult_t result = ncclGroupEnd();
    if (std::uncaught_exceptions() == 0) check_nccl(result, "ncclGroupEnd");
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
};

class NcclProcessGroup : public ProcessGroup {
 public:
  NcclProcessGroup(int rank, int size, Device device, std::shared_ptr<TcpStore> store, Store& keys);
  ~NcclProcessGroup() override;
  std::string backend() const override { return "nccl"; }

 private:
  WorkPtr submit(Collective collective) override;
  int64_t enqueue(const Collective& collective);
  void copy(const Tensor& from, const Tensor& to);
  void watch();
  void fail(const std::string& what);

  Device device_;
  std::shared_ptr<TcpStore> store_;    // keeps the membership alive
  std::shared_ptr<TcpStore> watched_;  // for the watchdog
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;  // this communicator's own
  Tensor token_;                   // what a barrier reduces
  std::mutex mutex_;
  std::list<std::shared_ptr<NcclWork>> running_;
  std::string unusable_;
  bool stop_ = false;
  std::thread watchdog_;
};

// NCCL would hang or report "Duplicate GPU detected" later.
void check_devices(int rank, int size, Device device, Store& keys) {
  const int count = device_count(DeviceType::cuda);
  check<DistBackendError>(device.index < count,
                          "rank {} has local rank {}, but this machine has {} GPU(s): NCCL needs one for each rank. Start fewer ranks, or "
                          "use the backend \"gloo\", through which ranks can share a GPU",
                          rank, device.index, count);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string mine = fmt::format("{}/{}/{}", host, visible ? visible : "", device.index);
  keys.set(fmt::format("gpu/{}", rank), mine);
  for (int other = 0; other < size; ++other) {
    const bool same = other != rank && keys.get(fmt::format("gpu/{}", other)) == mine;
    check<DistBackendError>(!same, "ranks {} and {} are both on {} of {}: NCCL does not allow two ranks on one GPU. Use the backend \"gloo\"", rank,
                            other, device.str(), host);
  }
}

NcclProcessGroup::NcclProcessGroup(int rank, int size, Device device, std::shared_ptr<TcpStore> store, Store& keys)
    : ProcessGroup(rank, size), device_(device), store_(std::move(store)) {
  check_devices(rank, size, device, keys);
  const DeviceGuard guard(device.index);  // before anything else: NCCL takes the calling thread's device
  ncclUniqueId id;
  if (rank == 0) {
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    keys.set("nccl_id", std::string(id.internal, sizeof id.internal));
  }
  const std::string bytes = keys.get("nccl_id");
  check<DistStoreError>(bytes.size() == sizeof id.internal, "the store has a wrong NCCL id of {} bytes", bytes.size());
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  check_nccl(ncclCommInitRank(&comm_, size, id, rank), "ncclCommInitRank");
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  token_ = Tensor::zeros({1}, DType::float32, device);
  watched_ = std::static_pointer_cast<TcpStore>(store_->clone());
  watchdog_ = std::thread([this] { watch(); });
}

NcclProcessGroup::~NcclProcessGroup() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  watched_->interrupt();
  watchdog_.join();
  const DeviceGuard guard(device_.index);
  // Work that nobody waited for would let ncclCommDestroy wait for ranks that may have gone.
  bool idle = unusable_.empty();
  for (const auto& work : running_) idle = idle && work->is_completed();
  if (comm_ && idle) {
    ncclCommDestroy(comm_);
  } else if (comm_) {
    ncclCommAbort(comm_);
  }
  for (const auto& work : running_) {
    if (!work->is_completed()) work->finish("the process group was destroyed before this operation had ended");
  }
  cudaStreamDestroy(stream_);
}

// An average is a division and then a sum, each rounded once: ncclAvg would round in an order of its own. A reduce_scatter's inputs are
// only read, so they are divided in copies.
void divide_inputs(Collective& collective, int size) {
  const NoGrad no_grad;
  if (collective.kind == CollectiveKind::all_reduce || collective.kind == CollectiveKind::reduce) {
    Tensor own = collective.own();
    own.mul_(1.0 / size);
  } else if (collective.kind == CollectiveKind::reduce_scatter) {
    for (Tensor& input : collective.inputs) input = input.clone().mul_(1.0 / size);
  }
}

WorkPtr NcclProcessGroup::submit(Collective collective) {
  check<DistBackendError>(collective.kind != CollectiveKind::monitored_barrier, "monitored_barrier needs the backend \"gloo\" or \"ring\"");
  if (const Tensor& own = collective.own(); own.defined()) {
    check<DeviceError>(own.device() == device_, "{}: this NCCL group works on {}, found {}", name_of(collective.kind), device_.str(),
                       own.describe());
  }
  const std::lock_guard lock(mutex_);
  check<DistBackendError>(unusable_.empty(), "{}: this process group cannot be used any more: {}", name_of(collective.kind), unusable_);
  const DeviceGuard guard(device_.index);
  if (collective.op == ReduceOp::avg) divide_inputs(collective, size());
  // The communication stream must not read before the compute stream has written (P11 of many a bug report).
  cudaEvent_t ready;
  check_cuda(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check_cuda(cudaEventRecord(ready, cuda::compute_stream(device_.index)), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(stream_, ready, 0), "cudaStreamWaitEvent");
  check_cuda(cudaEventDestroy(ready), "cudaEventDestroy");
  const int64_t bytes = enqueue(collective);
  auto work = std::make_shared<NcclWork>(std::move(collective), device_, bytes);
  check_cuda(cudaEventRecord(work->done(), stream_), "cudaEventRecord");
  running_.push_back(work);
  return work;
}

// Returns the bytes this rank sends in a ring, which is how NCCL moves large data.
int64_t NcclProcessGroup::enqueue(const Collective& c) {
  const Tensor& own = c.own();
  const size_t count = own.defined() ? static_cast<size_t>(own.numel()) : 0;
  const auto nbytes = static_cast<int64_t>(own.defined() ? own.nbytes() : 0);
  const ncclDataType_t type = own.defined() ? type_of(own.dtype()) : ncclFloat32;
  const int64_t others = size() - 1;
  // One rank: nothing to exchange, and NCCL 2.27 to 2.29.6 leave the end of an average unwritten there.
  if (size() == 1) {
    for (size_t i = 0; i < c.outputs.size() && i < c.inputs.size(); ++i) copy(c.inputs[i], c.outputs[i]);
    return 0;
  }
  switch (c.kind) {
    case CollectiveKind::broadcast:
      check_nccl(ncclBroadcast(own.raw_data(), own.raw_data(), count, type, c.root, comm_, stream_), "ncclBroadcast", comm_);
      return rank() == c.root ? nbytes : 0;
    case CollectiveKind::all_reduce:
      check_nccl(ncclAllReduce(own.raw_data(), own.raw_data(), count, type, type_of(c.op), comm_, stream_), "ncclAllReduce", comm_);
      return 2 * nbytes * others / size();
    case CollectiveKind::reduce:
      check_nccl(ncclReduce(own.raw_data(), own.raw_data(), count, type, type_of(c.op), c.root, comm_, stream_), "ncclReduce", comm_);
      return rank() == c.root ? 0 : nbytes;
    case CollectiveKind::all_gather: {
      const NcclGroup group;
      for (int root = 0; root < size(); ++root) {
        void* to = c.outputs[static_cast<size_t>(root)].raw_data();
        check_nccl(ncclBroadcast(root == rank() ? own.raw_data() : to, to, count, type, root, comm_, stream_), "ncclBroadcast", comm_);
      }
      return nbytes * others;
    }
    case CollectiveKind::reduce_scatter: {
      const NcclGroup group;
      for (int root = 0; root < size(); ++root) {
        check_nccl(ncclReduce(c.inputs[static_cast<size_t>(root)].raw_data(), own.raw_data(), count, type, type_of(c.op), root, comm_, stream_),
                   "ncclReduce", comm_);
      }
      return nbytes * others;
    }
    case CollectiveKind::gather: {
      if (rank() == c.root) copy(own, c.outputs[static_cast<size_t>(rank())]);
      const NcclGroup group;
      if (rank() != c.root) check_nccl(ncclSend(own.raw_data(), count, type, c.root, comm_, stream_), "ncclSend", comm_);
      for (int from = 0; from < size() && rank() == c.root; ++from) {
        if (from == rank()) continue;
        check_nccl(ncclRecv(c.outputs[static_cast<size_t>(from)].raw_data(), count, type, from, comm_, stream_), "ncclRecv", comm_);
      }
      return rank() == c.root ? 0 : nbytes;
    }
    case CollectiveKind::scatter: {
      if (rank() == c.root) copy(c.inputs[static_cast<size_t>(rank())], own);
      const NcclGroup group;
      if (rank() != c.root) check_nccl(ncclRecv(own.raw_data(), count, type, c.root, comm_, stream_), "ncclRecv", comm_);
      for (int to = 0; to < size() && rank() == c.root; ++to) {
        if (to == rank()) continue;
        check_nccl(ncclSend(c.inputs[static_cast<size_t>(to)].raw_data(), count, type, to, comm_, stream_), "ncclSend", comm_);
      }
      return rank() == c.root ? nbytes * others : 0;
    }
    case CollectiveKind::send:
    case CollectiveKind::recv:
    case CollectiveKind::exchange: {
      const NcclGroup group;
      if (c.kind != CollectiveKind::recv) check_nccl(ncclSend(own.raw_data(), count, type, c.root, comm_, stream_), "ncclSend", comm_);
      if (c.kind != CollectiveKind::send) {
        const Tensor& in = c.outputs[0];
        const int source = c.kind == CollectiveKind::exchange ? c.source : c.root;
        check_nccl(ncclRecv(in.raw_data(), static_cast<size_t>(in.numel()), type, source, comm_, stream_), "ncclRecv", comm_);
      }
      return c.kind == CollectiveKind::recv ? 0 : nbytes;
    }
    case CollectiveKind::barrier:
      check_nccl(ncclAllReduce(token_.raw_data(), token_.raw_data(), 1, ncclFloat32, ncclSum, comm_, stream_), "ncclAllReduce", comm_);
      return 0;
    case CollectiveKind::monitored_barrier: break;
  }
  throw Error("nccl: unexpected operation {}", name_of(c.kind));
}

void NcclProcessGroup::copy(const Tensor& from, const Tensor& to) {
  if (from.nbytes() == 0 || from.raw_data() == to.raw_data()) return;
  check_cuda(cudaMemcpyAsync(to.raw_data(), from.raw_data(), from.nbytes(), cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
}

// NCCL does not notice that a peer process has died, and its kernels spin for ever: somebody must look.
void NcclProcessGroup::watch() {
  while (true) {
    std::string failure;
    try {
      failure = watched_->watch(Milliseconds(20));
    } catch (const std::exception& error) {
      failure = error.what();
    }
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    // First what is done, then whether all is well: an error is noted before the kernel that met it ends.
    std::vector<std::shared_ptr<NcclWork>> done;
    std::copy_if(running_.begin(), running_.end(), std::back_inserter(done), [](const auto& work) { return work->is_completed(); });
    ncclResult_t error = ncclSuccess;
    if (failure.empty() && ncclCommGetAsyncError(comm_, &error) == ncclSuccess && error != ncclSuccess && error != ncclInProgress) {
      failure = fmt::format("NCCL reports {} ({})", ncclGetErrorString(error), ncclGetLastError(comm_));
    }
    const auto oldest = std::next(running_.begin(), static_cast<std::ptrdiff_t>(done.size()));  // they end in their order
    if (failure.empty() && oldest != running_.end() && (*oldest)->late()) {
      failure = fmt::format("{} on rank {} timed out after {}", (*oldest)->collective().describe(), rank(),
                            to_string((*oldest)->collective().timeout));
      try {
        failure = store_->report(failure);
      } catch (const std::exception&) {
        // The store has gone too; our own account must do.
      }
    }
    if (!failure.empty()) return fail(failure);
    for (const auto& work : done) {
      work->finish("");
      running_.remove(work);
    }
  }
}

void NcclProcessGroup::fail(const std::string& what) {
  unusable_ = what;
  // First told, then aborted: an aborted kernel's event looks like that of one that has done its work.
  for (const auto& work : running_) work->finish(fmt::format("{} failed on rank {}. Cause: {}", work->collective().describe(), rank(), what));
  const DeviceGuard guard(device_.index);
  ncclCommAbort(comm_);  // ends the kernels; what they were writing is rubbish now
  comm_ = nullptr;
  running_.clear();
}

}  // namespace

std::shared_ptr<ProcessGroup> make_nccl_group(int rank, int size, Device device, std::shared_ptr<TcpStore> store, std::shared_ptr<Store> keys) {
  return std::make_shared<NcclProcessGroup>(rank, size, device, std::move(store), *keys);
}

}  // namespace miniddp
