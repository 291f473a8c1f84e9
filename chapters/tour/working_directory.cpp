#include "chapters/tour/working_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "common/core/error.h"

namespace miniddp {

WorkingDirectory::WorkingDirectory() {
  std::string name = std::filesystem::temp_directory_path() / "miniddp_tour_XXXXXX";
  check(::mkdtemp(name.data()) != nullptr, "cannot make a folder {}: {}", name, std::strerror(errno));
  path_ = name;
}

WorkingDirectory::~WorkingDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace miniddp
