// How many bytes a step moves, by formula.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chapters/06_dp_vs_ddp/part.h"
#include "common/core/device.h"

namespace miniddp {

/// What the formulas know of a run.
struct ByteSetup {
  int64_t global_batch = 0;
  int64_t parameter_bytes = 0;
  int devices = 1;
  DeviceType type = DeviceType::cpu;
  std::string backend;  // of DDP
};

/// Bytes that `rank` sends in a ring all-reduce of so many float32 elements: all chunks but one, twice. Chunks are dealt out as chapter
/// 04 does, floor(n * chunk / ranks).
int64_t ring_bytes(int64_t elements, int rank, int ranks);

/// One device: only GPUs get their batch from elsewhere. Formulas only; `counted` is 0.
std::vector<ByteCount> one_device_bytes(const ByteSetup& setup);
/// DataParallel.
std::vector<ByteCount> dp_bytes(const ByteSetup& setup);
/// DistributedDataParallel, what `rank` sends.
std::vector<ByteCount> ddp_bytes(const ByteSetup& setup, const std::vector<int64_t>& reduced_elements, int rank);

/// Puts what was counted beside the formulas. What no formula foresees gets a row of its own, with formula 0. Throws Error if steps moved
/// unequal numbers of bytes.
std::vector<ByteCount> beside_counted(std::vector<ByteCount> formulas, const std::vector<TransferTotal>& transfers, int64_t steps);

}  // namespace miniddp
