// The bytes of a file, unpacked on the way if it is gzip.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>

namespace miniddp {

/// Reads a regular file from its start to its end, in pieces of bounded size.
class ByteSource {
 public:
  /// Throws DataError if there is no such file; `what` says what it should have been.
  ByteSource(const std::filesystem::path& path, std::string_view what);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// True if the file begins as gzip files do (1F 8B).
  bool is_gzip() const { return is_gzip_; }
  /// Of the file itself, as it lies on the disk.
  uint64_t file_size() const { return file_size_; }
  /// Fills `out`, less only at the end of the file: returns how many bytes came. Throws DataError if gzip
  /// data are damaged: cut short, a checksum that does not fit, or something behind them.
  size_t read(std::span<uint8_t> out);

 private:
  size_t read_gzip(std::span<uint8_t> out);
  void end_of_member();
  bool fill_input();

  std::filesystem::path path_;
  uint64_t file_size_;
  std::ifstream file_;
  bool is_gzip_ = false;
  bool finished_ = false;
  z_stream stream_{};
  std::array<uint8_t, 65536> input_;
};

}  // namespace miniddp
