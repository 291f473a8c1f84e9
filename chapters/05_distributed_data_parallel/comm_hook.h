// Communication hooks: how a bucket is averaged.
#pragma once

#include <functional>

#include "chapters/04_process_group/process_group.h"

namespace miniddp {

/// Waits for an all-reduce of gradients. For --profile and --trace it counts the bytes that this rank sent for it, and records when it ran,
/// on a lane of its own beside `device`'s work.
void wait_and_count(const ProcessGroup& group, Work& work, Device device);

/// A bucket on its way. wait() returns the tensor that replaces the bucket's gradients: same shape and dtype.
using PendingBucket = std::function<Tensor()>;

/// Gets a full bucket, flat and NOT divided: the hook divides itself. It must call the same collectives on every rank.
using CommHook = std::function<PendingBucket(ProcessGroup& group, Tensor flat)>;

/// What DistributedDataParallel does without a hook: division before the sum.
PendingBucket allreduce_hook(ProcessGroup& group, Tensor flat);
/// Half the bytes: converts to 16 bits, divides, sums in 16 bits, converts back. bf16 keeps float32's range, fp16 has more digits.
PendingBucket fp16_compress_hook(ProcessGroup& group, Tensor flat);
PendingBucket bf16_compress_hook(ProcessGroup& group, Tensor flat);

}  // namespace miniddp
