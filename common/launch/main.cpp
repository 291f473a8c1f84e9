// launch --nproc N program args…
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/core/error.h"
#include "common/launch/launch.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    // Only launch's own --help: what comes after the program's name is the program's.
    if (!arguments.empty() && arguments.front() == "--help") {
      fmt::print("{}", miniddp::launch_help());
      return 0;
    }
    return miniddp::launch(miniddp::parse_launch_arguments(arguments));
  } catch (const miniddp::UsageError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
