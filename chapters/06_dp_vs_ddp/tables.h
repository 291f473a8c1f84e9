// The report as text.
#pragma once

#include <string>

#include "chapters/06_dp_vs_ddp/report.h"

namespace miniddp {

/// Parity, speed, bytes, memory and behaviour, for a terminal.
std::string report_tables(const Report& report);

}  // namespace miniddp
