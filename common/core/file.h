// Whole files: read at once; written whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace miniddp {

/// Size in bytes of a regular file. Throws DataError, saying what `what` is for ("an image"), if there is
/// none at `path` or it is not a regular file: reading a pipe or a device might never end.
uint64_t file_size_of(const std::filesystem::path& path, std::string_view what);

/// The bytes of a regular file. Throws DataError as file_size_of does, or if it cannot be read.
std::string read_file(const std::filesystem::path& path, std::string_view what);

/// Writes through a temporary file beside `path`, flushed to the disk and then renamed, so that `path` is
/// never half written. Makes the directory if there is none; writes through a symbolic link. Throws Error, and
/// leaves no temporary file, if that fails or `path` is there and no regular file.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// Throws Error as write_file would for want of a directory or of permission, without writing anything: for
/// results of long work, before the work.
void check_writable(const std::filesystem::path& path);

}  // namespace miniddp
