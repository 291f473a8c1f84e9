// The tour's command line.
#pragma once

#include <string>
#include <vector>

#include "chapters/tour/stages.h"

namespace miniddp {

/// Throws UsageError on a wrong command line; --help prints the help and exits.
TourOptions parse_tour_options(int argc, const char* const* argv);

/// The losses that PyTorch has for these options, at least the first 20, from chapters/tour/recorded; empty if none were recorded.
/// Throws DataError if the file is damaged.
std::vector<double> recorded_losses(const TourOptions& options);

}  // namespace miniddp
