// The whole comparison: starts the parts, and makes one report of what they leave.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chapters/06_dp_vs_ddp/options.h"
#include "chapters/06_dp_vs_ddp/part.h"
#include "chapters/06_dp_vs_ddp/report.h"

namespace miniddp {

/// The parts of one role, by rank.
struct RoleParts {
  std::string role, title;
  std::vector<Part> ranks;
};

struct Comparison {
  Report report;
  nlohmann::json trace;  // Chrome's format: every device and rank of every variant, on the machine's one clock
};

/// Runs all parts, one after the other, in a folder of their own inside options.output, which is gone afterwards. Throws Error naming the
/// part that failed or took too long. Forks: to be called before the process has threads.
Comparison compare(const CompareOptions& options, const std::vector<std::string>& arguments);

/// From the training roles' parts; `parts[0]` is one device's.
Report assemble(const CompareOptions& options, const std::vector<RoleParts>& parts);
nlohmann::json assemble_trace(const CompareOptions& options, const std::vector<RoleParts>& parts);
/// The step of median length of the last run, all ranks of one variant.
std::vector<TimelineRow> timeline_of(const std::vector<const VariantPart*>& ranks);

}  // namespace miniddp
