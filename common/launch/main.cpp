// launch --nproc N program args…
#include <algorithm>

#include "common/core/console.h"
#include "common/core/error.h"
#include "common/launch/launch.h"

int main(int argc, char** argv) {
  miniddp::open_standard_streams();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    // Only launch's own --help: what comes after the program's name is the program's.
    if (!arguments.empty() && arguments.front() == "--help") {
      miniddp::write_output(miniddp::launch_help());
      return 0;
    }
    return miniddp::launch(miniddp::parse_launch_arguments(arguments));
  } catch (const miniddp::UsageError& error) {
    miniddp::print_errors("error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    miniddp::print_errors("error: {}\n", error.what());
    return 1;
  }
}
