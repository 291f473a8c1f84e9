// The mistakes that --break makes in stage 04. All but the crash train on without any message: somebody has to compare.
#pragma once

#include <string>
#include <vector>

namespace miniddp {

std::vector<std::string> mistake_names();
/// For --help: every name with what it does.
std::string mistakes_help();

}  // namespace miniddp
