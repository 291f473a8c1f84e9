#include "common/data/image.h"

#define STBI_NO_STDIO
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>

#include <memory>
#include <string>

#include "common/core/error.h"
#include "common/core/file.h"
#include "common/data/jpeg_check.h"

namespace miniddp {
namespace {

struct StbFree {
  void operator()(stbi_uc* pixels) const { stbi_image_free(pixels); }
};

constexpr uint64_t largest_file = uint64_t{1} << 28;

/// Luminance of one pixel by ITU-R BT.601's weights.
int luminance(const stbi_uc* pixel, int channels) {
  return channels < 3 ? pixel[0] : (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000;
}

/// Lays transparent pixels on a ground that what is visible stands out from.
void compose(GreyImage& image, std::span<const uint8_t> alpha) {
  int64_t weight = 0;
  int64_t sum = 0;
  for (size_t i = 0; i < alpha.size(); ++i) {
    weight += alpha[i];
    sum += int64_t{alpha[i]} * image.pixels[i];
  }
  const int ground = sum > 127 * weight ? 0 : 255;
  for (size_t i = 0; i < alpha.size(); ++i) {
    image.pixels[i] =
        static_cast<uint8_t>((image.pixels[i] * alpha[i] + ground * (255 - alpha[i]) + 127) / 255);
  }
}

GreyImage to_grey(const stbi_uc* data, int rows, int cols, int channels) {
  GreyImage image{rows, cols, std::vector<uint8_t>(static_cast<size_t>(rows) * static_cast<size_t>(cols))};
  const bool has_alpha = channels == 2 || channels == 4;
  std::vector<uint8_t> alpha(has_alpha ? image.pixels.size() : 0);
  bool opaque = true;
  for (size_t i = 0; i < image.pixels.size(); ++i, data += channels) {
    image.pixels[i] = static_cast<uint8_t>(luminance(data, channels));
    if (!has_alpha) continue;
    alpha[i] = data[channels - 1];
    opaque = opaque && alpha[i] == 255;
  }
  if (!opaque) compose(image, alpha);
  return image;
}

}  // namespace

GreyImage load_image(const std::filesystem::path& path) {
  const std::string name = path.string();
  const uint64_t file_size = file_size_of(path, "a PNG or JPEG picture");
  check<DataError>(file_size <= largest_file, "{}: expected a picture of at most {} bytes, found {}", name,
                   largest_file, file_size);
  const std::string bytes = read_file(path, "a PNG or JPEG picture");
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  const bool is_jpeg = bytes.starts_with("\xff\xd8\xff");
  check<DataError>(
      is_jpeg || bytes.starts_with("\x89PNG\r\n\x1a\n"),
      "{}: expected a PNG or JPEG picture, found {} bytes of something else. Convert it to PNG first", name,
      size);
  int cols = 0;
  int rows = 0;
  int channels = 0;
  const bool known = (!is_jpeg || huffman_tables_fit({data, bytes.size()})) &&
                     stbi_info_from_memory(data, size, &cols, &rows, &channels) != 0;
  check<DataError>(
      known,
      "{}: the header of the picture is damaged, or claims a size beyond all measure. Save or copy it again",
      name);
  check<DataError>(rows > 0 && cols > 0 && int64_t{rows} * cols <= most_pixels,
                   "{}: expected a picture of at most {} pixels, found {} x {}. Make it smaller first", name,
                   most_pixels, cols, rows);
  const std::unique_ptr<stbi_uc, StbFree> pixels(
      stbi_load_from_memory(data, size, &cols, &rows, &channels, 0));
  const char* reason = pixels == nullptr ? stbi_failure_reason() : nullptr;
  check<DataError>(pixels != nullptr, "{}: the picture is damaged ({}). Save or copy it again", name,
                   reason == nullptr || *reason == '\0' ? "its data do not fit its header" : reason);
  return to_grey(pixels.get(), rows, cols, channels);
}

void write_png(const std::filesystem::path& path, std::span<const uint8_t> pixels, int64_t rows, int64_t cols,
               int channels) {
  check(rows > 0 && cols > 0 && rows * cols * channels == static_cast<int64_t>(pixels.size()),
        "{}: expected {} x {} x {} bytes for a picture, found {}", path.string(), rows, cols, channels,
        pixels.size());
  std::string bytes;
  const auto append = [](void* context, void* data, int size) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data), static_cast<size_t>(size));
  };
  const int done = stbi_write_png_to_func(append, &bytes, static_cast<int>(cols), static_cast<int>(rows),
                                          channels, pixels.data(), static_cast<int>(cols * channels));
  check(done != 0, "{}: the picture cannot be encoded: out of memory", path.string());
  write_file(path, bytes);
}

}  // namespace miniddp
