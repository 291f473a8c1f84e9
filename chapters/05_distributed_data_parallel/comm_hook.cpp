#include "chapters/05_distributed_data_parallel/comm_hook.h"

#include "common/core/recorder.h"

namespace miniddp {
namespace {

int64_t nanoseconds(Work::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

void wait_and_count(const ProcessGroup& group, Work& work, Device device) {
  work.wait();
  if (recording() && group.size() > 1) {
    count_transfer("communication", "gradients", fmt::format("rank {}", group.rank()), "the other ranks", work.bytes_sent());
    const int64_t begin = nanoseconds(work.start_time()), end = nanoseconds(work.end_time());
    recorder().add_span("all-reduce", device, "communication", begin, end, end - begin);
  }
}

namespace {

PendingBucket compress_hook(ProcessGroup& group, const Tensor& flat, DType small) {
  // Rounded first, divided then: as PyTorch, whose division is one in 16 bits.
  Tensor rounded = flat.to(small).to(flat.dtype());
  Tensor compressed = rounded.mul_(1.0 / group.size()).to(small);
  WorkPtr work = group.all_reduce(compressed);
  return [&group, work, compressed, dtype = flat.dtype()] {
    wait_and_count(group, *work, compressed.device());
    return compressed.to(dtype);
  };
}

}  // namespace

PendingBucket allreduce_hook(ProcessGroup& group, Tensor flat) {
  // BEGIN SOLUTION 05.10 the run that is too fast
  flat.mul_(1.0 / group.size());
  WorkPtr work = group.all_reduce(flat);
  return [&group, work, flat] {
    wait_and_count(group, *work, flat.device());
    return flat;
  };
  // END SOLUTION
}

PendingBucket fp16_compress_hook(ProcessGroup& group, Tensor flat) { return compress_hook(group, flat, DType::float16); }
PendingBucket bf16_compress_hook(ProcessGroup& group, Tensor flat) { return compress_hook(group, flat, DType::bfloat16); }

}  // namespace miniddp
