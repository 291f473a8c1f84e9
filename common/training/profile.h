// What a profile tells: `--profile` prints it as a table, `--trace FILE` writes it for Perfetto (ui.perfetto.dev) or chrome://tracing.
#pragma once

#include <filesystem>
#include <string>

#include "common/core/recorder.h"

namespace miniddp {

/// Milliseconds of each phase on each device, bytes moved, and the peak of each device's memory. Several lines.
std::string profile_table(const Profile& profile);

/// Chrome's trace format, one row for each device and lane. `rank` is the process in the picture; traces of several ranks on one machine
/// share a clock, so their "traceEvents" may be put together in one file.
std::string trace_json(const Profile& profile, int rank = 0);

/// "trace.json" for rank 0, "trace.rank2.json" for rank 2.
std::filesystem::path trace_path(const std::filesystem::path& path, int rank);

}  // namespace miniddp
