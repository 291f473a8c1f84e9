// The report as one HTML page that needs nothing else: the numbers as JSON inside it, drawn by its own script.
#pragma once

#include <string>

#include "chapters/06_dp_vs_ddp/report.h"

namespace miniddp {

std::string report_page(const Report& report);

}  // namespace miniddp
