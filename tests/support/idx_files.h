// IDX and gzip bytes for tests, good ones and bad ones.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/core/error.h"
#include "common/core/generator.h"

namespace miniddp {

/// An IDX header of unsigned bytes with these sizes.
inline std::string idx_header(const std::vector<uint32_t>& sizes) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(size >> shift));
  }
  return bytes;
}

/// Random bytes, each below `limit`.
inline std::string random_bytes(size_t count, int limit = 256, uint64_t seed = 1) {
  Generator generator(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(generator.randint(0, limit));
  return bytes;
}

/// One gzip member.
inline std::string gzip(const std::string& bytes) {
  z_stream stream{};
  check(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib cannot start");
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  check(result == Z_STREAM_END, "zlib did not finish");
  return packed;
}

}  // namespace miniddp
