// A folder for the files of one run.
#pragma once

#include <filesystem>

namespace miniddp {

/// A new, empty folder below the system's folder for temporary files; gone with the object. Throws Error if it cannot be made.
class WorkingDirectory {
 public:
  WorkingDirectory();
  ~WorkingDirectory();
  WorkingDirectory(const WorkingDirectory&) = delete;
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace miniddp
