#include "common/data/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "common/core/error.h"
#include "common/core/file.h"

namespace miniddp {
namespace {

constexpr std::array<uint8_t, 2> gzip_magic{0x1f, 0x8b};
constexpr int gzip_only = 16;  // added to zlib's window bits

}  // namespace

ByteSource::ByteSource(const std::filesystem::path& path, std::string_view what)
    : path_(path), file_size_(file_size_of(path, what)), file_(path, std::ios::binary) {
  check<DataError>(file_.is_open(), "{}: cannot be opened: {}", path_.string(), std::strerror(errno));
  if (fill_input()) {
    is_gzip_ = stream_.avail_in >= 2 && std::equal(gzip_magic.begin(), gzip_magic.end(), input_.begin());
  }
  if (is_gzip_ && inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK)
    throw Error("zlib cannot start: out of memory");
}

ByteSource::~ByteSource() {
  if (is_gzip_) inflateEnd(&stream_);
}

bool ByteSource::fill_input() {
  file_.read(reinterpret_cast<char*>(input_.data()), static_cast<std::streamsize>(input_.size()));
  check<DataError>(!file_.bad(), "{}: cannot be read: {}", path_.string(), std::strerror(errno));
  stream_.next_in = input_.data();
  stream_.avail_in = static_cast<uInt>(file_.gcount());
  return stream_.avail_in > 0;
}

size_t ByteSource::read(std::span<uint8_t> out) {
  if (is_gzip_) return read_gzip(out);
  size_t count = 0;
  while (count < out.size() && (stream_.avail_in > 0 || fill_input())) {
    const size_t piece = std::min<size_t>(stream_.avail_in, out.size() - count);
    std::memcpy(out.data() + count, stream_.next_in, piece);
    stream_.next_in += piece;
    stream_.avail_in -= static_cast<uInt>(piece);
    count += piece;
  }
  return count;
}

size_t ByteSource::read_gzip(std::span<uint8_t> out) {
  size_t count = 0;
  while (count < out.size() && !finished_) {
    check<DataError>(stream_.avail_in > 0 || fill_input(),
                     "{}: its gzip data end too early, after {} bytes of the file: it is truncated. Copy or "
                     "download it again",
                     path_.string(), file_size_);
    const size_t piece = std::min<size_t>(out.size() - count, std::numeric_limits<uInt>::max());
    stream_.next_out = out.data() + count;
    stream_.avail_out = static_cast<uInt>(piece);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    count += piece - stream_.avail_out;
    if (result == Z_STREAM_END) {
      end_of_member();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw DataError("{}: its gzip data are damaged ({}). Copy or download it again", path_.string(),
                      stream_.msg != nullptr ? stream_.msg : "zlib gives no reason");
    }
  }
  return count;
}

// A gzip file may hold several members, one after the other.
void ByteSource::end_of_member() {
  if (stream_.avail_in == 0 && !fill_input()) {
    finished_ = true;
    return;
  }
  check<DataError>(stream_.next_in[0] == gzip_magic[0],
                   "{}: expected the end of the file after its gzip data, found more bytes", path_.string());
  inflateReset(&stream_);
}

}  // namespace miniddp
