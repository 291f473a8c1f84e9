#include "common/core/file.h"

#include <sys/stat.h>

#include "common/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;

TEST_CASE("write_file writes whole files and leaves nothing else") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "made" / "for it" / "file.bin";
  const std::string bytes("a\0b\n\xff", 5);
  write_file(path, "longer contents that go away");
  write_file(path, bytes);
  CHECK(read_file(path, "a test") == bytes);
  CHECK(file_size_of(path, "a test") == 5);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path.parent_path())) ++files;
  CHECK(files == 1);
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & S_IRUSR) != 0);
}

TEST_CASE("write_file that cannot write leaves the target as it was") {
  const TemporaryDirectory directory;
  const auto target = directory.path() / "target";
  std::filesystem::create_directory(target);
  write_file(target / "inside", "kept");
  // A directory that is not empty cannot be replaced by a file.
  CHECK_THROWS_AS(write_file(target, "bytes"), Error);
  CHECK(read_file(target / "inside", "a test") == "kept");
  CHECK_THROWS_AS(write_file(target / "inside" / "below a file", "bytes"), Error);
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) ++entries;
  CHECK(entries == 1);
}

TEST_CASE("read_file names what is missing or not a file") {
  const TemporaryDirectory directory;
  CHECK_THROWS_AS(read_file(directory.path() / "absent", "an image"), DataError);
  CHECK_THROWS_AS(read_file(directory.path(), "an image"), DataError);
  CHECK_THROWS_AS(read_file("/dev/zero", "an image"), DataError);
  const auto pipe = directory.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_file(pipe, "an image"), DataError);
}
