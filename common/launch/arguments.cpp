// The command line of `launch`.
#include <algorithm>
#include <charconv>

#include "common/core/error.h"
#include "common/launch/launch.h"

namespace miniddp {

namespace {

template <class T>
T number(const std::string& option, const std::string& text, T lowest, T highest) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<UsageError>(
      error == std::errc() && end == text.data() + text.size() && value >= lowest && value <= highest,
      "{} expects a number from {} to {}, found \"{}\"", option, lowest, highest, text);
  return value;
}

}  // namespace

std::string launch_help() {
  return "Usage: launch --nproc N [options] [--] program [arguments...]\n"
         "\n"
         "Starts N ranks of a program on this machine, writes their output with a prefix, and ends all of "
         "them when one fails.\n"
         "\n"
         "  --nproc N           ranks to start\n"
         "  --master-addr A     where rank 0's store listens (default 127.0.0.1)\n"
         "  --master-port P     its port (default: a free one, held open and handed to rank 0)\n"
         "  --grace S           seconds from SIGTERM to SIGKILL (default 5)\n"
         "  --timeout S         end everything after so many seconds (default: no limit)\n"
         "  --no-prefix         do not write \"[rank 1] \" before each line\n"
         "  --help              this text\n"
         "\n"
         "The exit code is the first failing rank's (128 + signal if it was killed), 124 after --timeout, 2 "
         "for a wrong command line.\n";
}

LaunchOptions parse_launch_arguments(const std::vector<std::string>& arguments) {
  LaunchOptions options;
  size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--") {
      ++i;
      break;
    }
    if (!name.starts_with("-")) break;
    if (name == "--no-prefix") {
      options.prefix = false;
      continue;
    }
    const bool known = name == "--nproc" || name == "--master-addr" || name == "--master-port" ||
                       name == "--grace" || name == "--timeout";
    check<UsageError>(
        known, "unknown option {}; launch --help lists the options, and the program comes after them", name);
    check<UsageError>(i + 1 < arguments.size(), "{} expects a value", name);
    const std::string& value = arguments[++i];
    if (name == "--nproc") options.nproc = number(name, value, 1, 1024);
    if (name == "--master-addr") options.master_addr = value;
    if (name == "--master-port") options.master_port = number(name, value, 0, 65535);
    if (name == "--grace") options.grace = number(name, value, 0.0, 3600.0);
    if (name == "--timeout") options.timeout = number(name, value, 0.0, 1e9);
  }
  options.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(std::min(i, arguments.size())),
                         arguments.end());
  check<UsageError>(options.nproc > 0, "expected --nproc N, the number of ranks");
  check<UsageError>(!options.command.empty(), "expected a program after the options");
  return options;
}

}  // namespace miniddp
