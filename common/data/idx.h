// IDX, the format of MNIST's files: two zero bytes, the element type, the number of dimensions, each size as
// a big-endian uint32, then the elements, row-major. Source: the description published with MNIST.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/core/shape.h"

namespace miniddp {

struct IdxArray {
  Shape shape;
  std::vector<uint8_t> data;  // row-major
};

/// Reads an IDX file of unsigned bytes with `dims` dimensions, gzip-compressed or not: its first bytes tell,
/// not its name. Throws DataError, naming the file, what was expected and what was found, for a file that is
/// missing, damaged, cut short, too long or not IDX. A header alone makes no memory: never more than ten
/// times the file's size unless that many bytes really come out of it, and no more than 256 MiB then.
IdxArray read_idx(const std::filesystem::path& path, int dims);

}  // namespace miniddp
