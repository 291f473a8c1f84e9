// One variant in this process: first compared with one device, then timed.
#pragma once

#include <filesystem>

#include "chapters/04_process_group/process_group.h"
#include "chapters/06_dp_vs_ddp/part.h"
#include "chapters/06_dp_vs_ddp/training.h"

namespace miniddp {

/// `group`: of the ranks that train together; nullptr: this process alone. `reference`: the file that one device wrote, or (`is_reference`)
/// is to write.
struct MeasureSetup {
  const CompareOptions& options;
  const ImageDataset& images;
  std::filesystem::path reference;
  bool is_reference = false;
  ProcessGroup* group = nullptr;
};

/// Parity steps, then `runs` runs of `steps` steps each.
VariantPart measure(const std::string& name, Training& training, const MeasureSetup& setup);

/// Nanoseconds that the spans of `phase` have in common with those of `other`, on any rows; both without overlaps among themselves.
int64_t common_time(const std::vector<SpanRecord>& spans, const std::string& phase, const std::string& other);

/// Every rank's clock against rank 0's, by messages back and forth: the exchange that took least time counts. Every rank calls it; rank 0
/// gets the result.
std::vector<ClockOffset> compare_clocks(ProcessGroup& group);

}  // namespace miniddp
