// Runs all blocks of a launch on the cores of this machine.
#pragma once

#include <memory>

#include "common/cuda_emulator/block_runner.h"

namespace miniddp::emulator {

/// Returns when every block has ended. `key` stands for the stream: under the race detector fibers, which remember what
/// they have seen, are reused only by launches of one stream, which are ordered anyway.
void run_grid(Grid& grid, const void* key);

/// The stream is gone: so are the fibers kept for it.
void forget_fibers(const void* key);

}  // namespace miniddp::emulator
