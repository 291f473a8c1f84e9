#include "tests/support/skip.h"

#include <cstdlib>
#include <iostream>

namespace miniddp::test {
namespace {
int count = 0;
}

bool is_required(const std::string& what) {
  const char* value = std::getenv(("REQUIRE_" + what).c_str());
  return value != nullptr && std::string(value) != "" && std::string(value) != "0";
}

void note_skip(const std::string& what, const std::string& reason) {
  std::cout << "SKIPPED, no " << what << ": " << reason << std::endl;
  ++count;
}

int skip_count() { return count; }

}  // namespace miniddp::test
