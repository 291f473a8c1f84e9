#include "common/data/jpeg_check.h"

#include <algorithm>
#include <numeric>

namespace miniddp {
namespace {

constexpr uint8_t marker_start = 0xff;
constexpr uint8_t define_huffman_tables = 0xc4;
constexpr size_t counts = 16;  // of codes of 1, 2 … 16 bits
constexpr size_t most_codes = 256;

size_t length_at(std::span<const uint8_t> jpeg, size_t at) {
  return at + 2 <= jpeg.size() ? size_t{jpeg[at]} << 8 | jpeg[at + 1] : 0;
}

/// The segment whose length stands at `at`: tables of one byte (class and number), 16 counts and the codes'
/// values.
bool tables_fit(std::span<const uint8_t> jpeg, size_t at) {
  const size_t end = at + length_at(jpeg, at);
  at += 2;
  while (at < end && at < jpeg.size()) {
    // Other numbers of tables are refused by stb_image itself; here they tell a segment from bytes that look
    // like one.
    if ((jpeg[at] & 0xec) != 0) return true;
    const size_t first = std::min(at + 1, jpeg.size());
    const auto of_each_length = jpeg.subspan(first, std::min(counts, jpeg.size() - first));
    const size_t codes = std::accumulate(of_each_length.begin(), of_each_length.end(), size_t{0});
    if (codes > most_codes) return false;
    at += 1 + counts + codes;
  }
  return true;
}

/// Segments before the first scan: their contents may look like anything, so they are stepped over as
/// stb_image does.
bool has_length(uint8_t marker) {
  const bool frame = marker >= 0xc0 && marker <= 0xc2;
  const bool tables = marker == define_huffman_tables || marker == 0xdb || marker == 0xdd;
  const bool application_or_comment = (marker >= 0xe0 && marker <= 0xef) || marker == 0xfe;
  return frame || tables || application_or_comment;
}

}  // namespace

bool huffman_tables_fit(std::span<const uint8_t> jpeg) {
  bool within_header = true;  // behind it every marker counts: where a scan ends is the decoder's business
  for (size_t at = 2; at + 1 < jpeg.size(); ++at) {
    if (jpeg[at] != marker_start || jpeg[at + 1] == marker_start) continue;
    const uint8_t marker = jpeg[at + 1];
    if (marker == define_huffman_tables && !tables_fit(jpeg, at + 2)) return false;
    within_header = within_header && has_length(marker);
    if (within_header) at += 1 + length_at(jpeg, at + 2);
  }
  return true;
}

}  // namespace miniddp
