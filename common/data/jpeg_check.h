// What stb_image trusts a JPEG with and should not.
#pragma once

#include <cstdint>
#include <span>

namespace miniddp {

/// False if a Huffman table claims more than 256 codes. stb_image 2.27 and older writes behind its tables
/// then.
bool huffman_tables_fit(std::span<const uint8_t> jpeg);

}  // namespace miniddp
