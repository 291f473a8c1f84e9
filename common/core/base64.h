// Bytes as text (RFC 4648).
#pragma once

#include <string>
#include <string_view>

namespace miniddp {

std::string encode_base64(std::string_view bytes);
/// Throws DataError if the text is not base64.
std::string decode_base64(std::string_view text);

}  // namespace miniddp
