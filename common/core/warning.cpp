#include "common/core/warning.h"

#include <mutex>
#include <set>
#include <utility>

#include "common/core/console.h"

namespace miniddp {
namespace {

struct Warnings {
  std::mutex mutex;
  WarningHandler handler;
  std::set<std::string> printed;
};

Warnings& warnings() {
  static auto* instance = new Warnings;  // leaked on purpose: a worker may warn while the program ends
  return *instance;
}

}  // namespace

void warn(const std::string& message) {
  Warnings& all = warnings();
  std::lock_guard lock(all.mutex);
  if (all.handler) {
    all.handler(message);
  } else if (all.printed.insert(message).second) {
    print_errors("warning: {}\n", message);
  }
}

WarningHandler set_warning_handler(WarningHandler handler) {
  Warnings& all = warnings();
  std::lock_guard lock(all.mutex);
  return std::exchange(all.handler, std::move(handler));
}

}  // namespace miniddp
