// A directory of a test's own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/core/error.h"

namespace miniddp {

/// Made empty, removed with all it holds when it goes.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "miniddp-XXXXXX").string();
    check(::mkdtemp(name.data()) != nullptr, "cannot make a temporary directory like {}", name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace miniddp
