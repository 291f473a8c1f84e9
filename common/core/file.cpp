#include "common/core/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "common/core/error.h"

namespace miniddp {
namespace fs = std::filesystem;

uint64_t file_size_of(const fs::path& path, std::string_view what) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  check<DataError>(fs::exists(status), "{}: no such file; expected {}. Check the path", path.string(), what);
  check<DataError>(fs::is_regular_file(status), "{}: expected {}, found {}", path.string(), what,
                   fs::is_directory(status) ? "a directory" : "something that is not a regular file");
  const uint64_t size = fs::file_size(path, error);
  check<DataError>(!error, "{}: cannot be read: {}", path.string(), error.message());
  return size;
}

std::string read_file(const fs::path& path, std::string_view what) {
  std::string bytes(file_size_of(path, what), '\0');
  std::ifstream in(path, std::ios::binary);
  check<DataError>(in.is_open(), "{}: cannot be opened: {}", path.string(), std::strerror(errno));
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  check<DataError>(in.gcount() == static_cast<std::streamsize>(bytes.size()),
                   "{}: read {} of {} bytes; is another program writing it?", path.string(), in.gcount(),
                   bytes.size());
  return bytes;
}

namespace {

/// A temporary file that goes away unless it is renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target), name_(target.string() + ".XXXXXX") {
    descriptor_ = ::mkstemp(name_.data());
    if (descriptor_ < 0) fail("cannot create a file in its directory");
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot write");
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }

  void rename_to_target() {
    // mkstemp makes files for their owner alone; give the usual permissions.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(descriptor_, 0666 & ~mask) != 0) fail("cannot set its permissions");
    if (::fsync(descriptor_) != 0) fail("cannot flush it to the disk");
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0) fail("cannot write");
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail("cannot rename the temporary file");
    name_.clear();
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error("{}: {}: {}. The file is as it was before", target_.string(), what, std::strerror(errno));
  }

  fs::path target_;
  std::string name_;
  int descriptor_ = -1;
};

}  // namespace

void write_file(const fs::path& path, std::string_view bytes) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  check(!error, "{}: cannot make its directory: {}", path.string(), error.message());
  TemporaryFile file(path);
  file.write(bytes);
  file.rename_to_target();
}

}  // namespace miniddp
