// Evaluation by all ranks together.
#pragma once

#include <string>
#include <vector>

#include "chapters/04_process_group/process_group.h"
#include "common/training/data.h"

namespace miniddp {

/// Sums over the ranks: each evaluated its own samples, every sample of the test set once (UnpaddedSampler). Averages of averages would
/// be wrong where ranks have unequal shares. Every rank gets the result.
TestResult sum_over_ranks(ProcessGroup& group, const TestResult& mine, Device device);

/// The mean of a scalar over the ranks: what a rank alone sees is not the loss of the global batch. Not recorded.
Tensor mean_over_ranks(ProcessGroup& group, const Tensor& value);

/// Every rank's text, in the order of the ranks: for checkpoints, which hold what the ranks do not share.
std::vector<std::string> gather_texts(ProcessGroup& group, const std::string& text, Device device);

}  // namespace miniddp
