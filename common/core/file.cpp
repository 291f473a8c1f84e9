#include "common/core/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>
#include <utility>

#include "common/core/error.h"
#include "common/core/interrupt.h"

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

/// Only one file is written at a time: one name is removed if a signal ends the program.
std::mutex& writing() {
  static auto* instance = new std::mutex;
  return *instance;
}

/// What a write replaces: a regular file, or nothing. A symbolic link stays, what it points to is written. Replacing a pipe or a device
/// (root may, /dev/null for one) would destroy it.
fs::path replaceable(const fs::path& path) {
  check(!path.empty(), "expected the name of a file to write, found none");
  std::error_code error;
  fs::path target = path;
  constexpr int most_links = 40;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    check(!error && links < most_links, "{}: the symbolic link cannot be followed. Choose another name", path.string());
    target = target.parent_path() / next;
  }
  const fs::file_status status = fs::status(target, error);
  check(!fs::exists(status) || fs::is_regular_file(status), "{}: expected the name of a file to write, found {}. Choose another name",
        path.string(), fs::is_directory(status) ? "a directory" : "a device, pipe or socket");
  check(target.has_filename(), "{}: expected the name of a file to write, found that of a directory. Add a file's name", path.string());
  return target;
}

/// A temporary file that goes away unless it is renamed; a signal that ends the program takes it along.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& path) : lock_(writing()), target_(replaceable(path)) {
    std::error_code error;
    if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), error);
    check(!error, "{}: cannot make its directory: {}", target_.string(), error.message());
    name_ = fmt::format("{}.{}.{:x}.tmp", target_.string(), ::getpid(), std::chrono::steady_clock::now().time_since_epoch().count());
    remove_if_interrupted(name_.c_str());
    descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      remove_if_interrupted(nullptr);
      fail("cannot create a file in its directory");
    }
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(name_.c_str());
    remove_if_interrupted(nullptr);
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
    if (::fsync(descriptor_) != 0) fail("cannot flush it to the disk");
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0) fail("cannot write");
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail("cannot rename the temporary file");
    renamed_ = true;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error("{}: {}: {}. The file is as it was before", target_.string(), what, std::strerror(errno));
  }

  std::lock_guard<std::mutex> lock_;
  fs::path target_;
  std::string name_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

}  // namespace

void write_file(const fs::path& path, std::string_view bytes) {
  TemporaryFile file(path);
  file.write(bytes);
  file.rename_to_target();
}

void check_writable(const fs::path& path) { const TemporaryFile file(path); }

}  // namespace miniddp
