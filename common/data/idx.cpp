#include "common/data/idx.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "common/core/error.h"
#include "common/data/byte_source.h"

namespace miniddp {
namespace {

constexpr uint8_t type_unsigned_byte = 0x08;
constexpr uint64_t most_growth = 10;  // of memory over the file's size, before its contents are seen
constexpr uint64_t usual_unpacked = uint64_t{256}
                                    << 20;  // larger gzip contents must be near the file's own size

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

std::string hex(std::span<const uint8_t> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, " "));
}

/// What the beginning of a file that is no IDX file looks like.
std::string guess(std::span<const uint8_t> start) {
  const auto first = std::find_if(start.begin(), start.end(), [](uint8_t c) { return std::isspace(c) == 0; });
  if (first != start.end() && *first == '<')
    return "an HTML or XML page (perhaps the error page of a failed download)";
  if (std::all_of(start.begin(), start.end(),
                  [](uint8_t c) { return std::isprint(c) != 0 || std::isspace(c) != 0; })) {
    return fmt::format("text (\"{}\")", std::string(start.begin(), start.end()));
  }
  return hex(start);
}

void check_magic(const std::string& name, std::span<const uint8_t> magic, int dims) {
  const std::string expected =
      fmt::format("an IDX file of unsigned bytes in {} dimension{}, which begins 00 00 08 {:02x}", dims,
                  dims == 1 ? "" : "s", dims);
  check<DataError>(magic.size() == 4, "{}: expected {}, found only {} byte{}: the file is truncated", name,
                   expected, magic.size(), magic.size() == 1 ? "" : "s");
  check<DataError>(magic[0] == 0 && magic[1] == 0,
                   "{}: expected {}, found {}. Check that this is the right file", name, expected,
                   guess(magic));
  check<DataError>(magic[2] == type_unsigned_byte,
                   "{}: expected {}, found {}: an element type that is not supported", name, expected,
                   hex(magic));
  check<DataError>(magic[3] == dims,
                   "{}: expected {}, found {}: an array of {} dimensions. Are images and labels swapped?",
                   name, expected, hex(magic), magic[3]);
}

/// Product of the sizes. Throws if it is more than the file can hold.
uint64_t checked_count(const ByteSource& source, const std::string& name, const Shape& shape,
                       uint64_t header) {
  uint64_t count = 1;
  bool overflow = false;
  for (const int64_t size : shape)
    overflow = overflow || __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count);
  if (source.is_gzip()) {
    const uint64_t limit = std::max(most_growth * source.file_size(), usual_unpacked);
    check<DataError>(!overflow && count <= limit,
                     "{}: the header claims {} = {} elements, more than a gzip file of {} bytes is trusted "
                     "to hold ({}): it is damaged, "
                     "or unpack it first",
                     name, to_string(shape), overflow ? "more than 2^64" : fmt::to_string(count),
                     source.file_size(), limit);
  } else {
    check<DataError>(
        !overflow && count == source.file_size() - header,
        "{}: the header {} asks for {} bytes in all, the file has {}: it is {}. Copy or download it again",
        name, to_string(shape), overflow ? "more than 2^64" : fmt::to_string(count + header),
        source.file_size(), overflow || count > source.file_size() - header ? "truncated" : "too long");
  }
  return count;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, int dims) {
  const std::string name = path.string();
  ByteSource source(path, "an IDX file");
  std::array<uint8_t, 4> magic{};
  check_magic(name, std::span(magic).first(source.read(magic)), dims);
  std::vector<uint8_t> sizes(4 * static_cast<size_t>(dims));
  const size_t got = source.read(sizes);
  check<DataError>(got == sizes.size(),
                   "{}: expected an IDX header of {} bytes, found {}: the file is truncated", name,
                   4 + sizes.size(), 4 + got);
  IdxArray array;
  for (int i = 0; i < dims; ++i) array.shape.push_back(big_endian(sizes.data() + 4 * i));
  const uint64_t count = checked_count(source, name, array.shape, 4 + sizes.size());

  // As much as the file may well hold at first, then as its contents really come.
  while (array.data.size() < count) {
    const size_t before = array.data.size();
    const size_t target = before == 0 ? most_growth * source.file_size() : 2 * before;
    array.data.resize(std::min<uint64_t>(count, target));
    const size_t piece = source.read(std::span(array.data).subspan(before));
    check<DataError>(
        before + piece == array.data.size(),
        "{}: the header {} asks for {} elements, found {}: the file is truncated. Copy or download it again",
        name, to_string(array.shape), count, before + piece);
  }
  uint8_t extra = 0;
  check<DataError>(source.read({&extra, 1}) == 0,
                   "{}: the header {} asks for {} elements, found more bytes behind them: it is damaged, or "
                   "not what it claims",
                   name, to_string(array.shape), count);
  return array;
}

}  // namespace miniddp
