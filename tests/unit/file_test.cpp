#include "common/core/file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "common/core/error.h"
#include "common/core/interrupt.h"
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

TEST_CASE("write_file leaves pipes and links in their place") {
  const TemporaryDirectory directory;
  const auto pipe = directory.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(write_file(pipe, "bytes"), Error);
  CHECK(std::filesystem::is_fifo(pipe));
  std::filesystem::create_symlink(pipe, directory.path() / "to the pipe");
  CHECK_THROWS_AS(write_file(directory.path() / "to the pipe", "bytes"), Error);
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK_THROWS_AS(write_file(directory.path() / "none" / "", "bytes"), Error);
  CHECK_THROWS_AS(write_file("", "bytes"), Error);

  std::filesystem::create_symlink("real", directory.path() / "link");
  std::filesystem::create_symlink("link", directory.path() / "link to link");
  for (const char* text : {"made", "replaced"}) {
    write_file(directory.path() / "link to link", text);
    CHECK(std::filesystem::is_symlink(directory.path() / "link to link"));
    CHECK(std::filesystem::is_symlink(directory.path() / "link"));
    CHECK(read_file(directory.path() / "real", "a test") == text);
  }
  std::filesystem::create_symlink("circle", directory.path() / "circle");
  CHECK_THROWS_AS(write_file(directory.path() / "circle", "bytes"), Error);
}

TEST_CASE("check_writable finds what write_file would, and leaves nothing") {
  const TemporaryDirectory directory;
  write_file(directory.path() / "file", "kept");
  check_writable(directory.path() / "file");
  CHECK(read_file(directory.path() / "file", "a test") == "kept");
  check_writable(directory.path() / "new");
  CHECK_FALSE(std::filesystem::exists(directory.path() / "new"));
  CHECK_THROWS_AS(check_writable(directory.path() / "file" / "below"), Error);
  CHECK_THROWS_AS(check_writable(directory.path()), Error);
  CHECK_THROWS_AS(check_writable("/proc/nowhere/file"), Error);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE("a signal in the middle of write_file leaves no part of a file") {
  const TemporaryDirectory directory;
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(directory.path()), {}); };
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(signal, SIG_DFL);  // Catch2 has a handler of its own
      handle_interrupts();
      const std::string bytes(size_t{256} << 20, 'x');
      for (;;) write_file(directory.path() / "target", bytes);
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (files() == 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    ::kill(child, signal);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    std::filesystem::remove(directory.path() / "target");
    CHECK(files() == 0);
  }
}

TEST_CASE("an orderly stop notes the first signal only while it lives") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int signal : {SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);  // Catch2 has handlers of its own
    handle_interrupts();
    {
      const OrderlyStop unwanted(false);
      if (unwanted.asked()) ::_exit(2);
    }
    const OrderlyStop stop;
    if (stop.asked()) ::_exit(3);
    std::raise(SIGTERM);
    if (!stop.asked()) ::_exit(4);
    std::raise(SIGHUP);
    ::_exit(5);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGHUP);
}
