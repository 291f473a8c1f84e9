#include "common/data/digit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "common/core/error.h"
#include "common/data/resize.h"

namespace miniddp {
namespace {

constexpr int64_t field = 28;  // MNIST's images
constexpr int64_t box = 20;    // and what the digit itself may take of them
constexpr int least_contrast = 24;

constexpr int64_t most_side = 1024;  // a photograph's detail is of no use

GreyImage no_larger_than(int64_t side, const GreyImage& picture) {
  const int64_t longest = std::max(picture.rows, picture.cols);
  if (longest <= side) return picture;
  const auto scaled = [&](int64_t size) { return std::max<int64_t>(1, size * side / longest); };
  return resize(picture, scaled(picture.rows), scaled(picture.cols));
}

std::vector<int> border_of(const GreyImage& image) {
  std::vector<int> border;
  for (int64_t col = 0; col < image.cols; ++col) {
    border.push_back(image.at(0, col));
    border.push_back(image.at(image.rows - 1, col));
  }
  for (int64_t row = 1; row + 1 < image.rows; ++row) {
    border.push_back(image.at(row, 0));
    border.push_back(image.at(row, image.cols - 1));
  }
  return border;
}

/// The value below which the given part of the values lies.
int quantile(std::vector<int> values, double part) {
  const auto middle = values.begin() + static_cast<int64_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// How much each pixel differs from the ground, towards the side to which most of the picture differs; 255 is
/// the most.
GreyImage ink_of(const GreyImage& picture, const std::string& name) {
  std::vector<int> border = border_of(picture);
  const int ground = quantile(border, 0.5);
  int64_t brighter = 0;
  int64_t darker = 0;
  for (const int pixel : picture.pixels) (pixel > ground ? brighter : darker) += std::abs(pixel - ground);
  const int sign = brighter > darker ? 1 : -1;
  int most = 0;
  for (const int pixel : picture.pixels) most = std::max(most, sign * (pixel - ground));
  check<DataError>(
      most >= least_contrast,
      "{}: expected a digit that stands out from its ground, found nothing that does: the picture is blank",
      name);

  // Whatever the border shows of paper, shadow and noise is no ink. In a picture that will shrink, nor are
  // faint halos; in one of MNIST's own size the faint pixels belong to the digit.
  for (int& pixel : border) pixel = std::abs(pixel - ground);
  const bool will_shrink = std::max(picture.rows, picture.cols) > 2 * field;
  const int floor = std::min(most / 2, std::max(2 * quantile(border, 0.9), will_shrink ? most / 5 : 0));
  GreyImage ink{picture.rows, picture.cols, std::vector<uint8_t>(picture.pixels.size())};
  for (size_t i = 0; i < ink.pixels.size(); ++i) {
    const int value = sign * (picture.pixels[i] - ground);
    ink.pixels[i] = value <= floor ? 0 : static_cast<uint8_t>(value * 255 / most);
  }
  return ink;
}

/// Pixels that touch, corner to corner counts too, reached from `start`; marks them in `seen`.
std::vector<size_t> connected(const GreyImage& ink, size_t start, std::vector<bool>& seen) {
  std::vector<size_t> found{start};
  seen[start] = true;
  for (size_t next = 0; next < found.size(); ++next) {
    const int64_t row = static_cast<int64_t>(found[next]) / ink.cols;
    const int64_t col = static_cast<int64_t>(found[next]) % ink.cols;
    for (int64_t r = std::max<int64_t>(row - 1, 0); r <= std::min(row + 1, ink.rows - 1); ++r) {
      for (int64_t c = std::max<int64_t>(col - 1, 0); c <= std::min(col + 1, ink.cols - 1); ++c) {
        const auto index = static_cast<size_t>(r * ink.cols + c);
        if (seen[index] || ink.pixels[index] == 0) continue;
        seen[index] = true;
        found.push_back(index);
      }
    }
  }
  return found;
}

/// Strokes may lie apart (a 5 and its bar); what is much smaller than the largest piece is dirt.
void drop_specks(GreyImage& ink) {
  constexpr size_t speck_part = 25;
  std::vector<bool> seen(ink.pixels.size(), false);
  std::vector<std::vector<size_t>> pieces;
  size_t largest = 0;
  for (size_t i = 0; i < ink.pixels.size(); ++i) {
    if (seen[i] || ink.pixels[i] == 0) continue;
    pieces.push_back(connected(ink, i, seen));
    largest = std::max(largest, pieces.back().size());
  }
  for (const auto& piece : pieces) {
    if (piece.size() * speck_part >= largest) continue;
    for (const size_t index : piece) ink.pixels[index] = 0;
  }
}

GreyImage cropped(const GreyImage& ink) {
  int64_t top = ink.rows;
  int64_t bottom = -1;
  int64_t left = ink.cols;
  int64_t right = -1;
  for (int64_t row = 0; row < ink.rows; ++row) {
    for (int64_t col = 0; col < ink.cols; ++col) {
      if (ink.at(row, col) == 0) continue;
      top = std::min(top, row), bottom = std::max(bottom, row);
      left = std::min(left, col), right = std::max(right, col);
    }
  }
  GreyImage crop{bottom - top + 1, right - left + 1, {}};
  for (int64_t row = top; row <= bottom; ++row) {
    const auto line = ink.pixels.begin() + row * ink.cols;
    crop.pixels.insert(crop.pixels.end(), line + left, line + right + 1);
  }
  return crop;
}

/// Where a digit of `size` pixels begins, so that its centre of mass comes to the middle but no ink is lost.
int64_t placed(double centre, int64_t size) {
  const auto start = static_cast<int64_t>(std::lround(static_cast<double>(field) / 2 - centre));
  return std::clamp<int64_t>(start, 0, field - size);
}

GreyImage centred(const GreyImage& digit) {
  double mass = 0;
  double row_moment = 0;
  double col_moment = 0;
  for (int64_t row = 0; row < digit.rows; ++row) {
    for (int64_t col = 0; col < digit.cols; ++col) {
      mass += digit.at(row, col);
      row_moment += digit.at(row, col) * static_cast<double>(row);
      col_moment += digit.at(row, col) * static_cast<double>(col);
    }
  }
  const int64_t top = placed(row_moment / mass, digit.rows);
  const int64_t left = placed(col_moment / mass, digit.cols);
  GreyImage out{field, field, std::vector<uint8_t>(field * field, 0)};
  for (int64_t row = 0; row < digit.rows; ++row) {
    for (int64_t col = 0; col < digit.cols; ++col) out.at(top + row, left + col) = digit.at(row, col);
  }
  return out;
}

}  // namespace

GreyImage to_mnist_digit(const GreyImage& picture, const std::string& name) {
  check<DataError>(!picture.pixels.empty(), "{}: expected a picture, found one without pixels", name);
  GreyImage ink = ink_of(no_larger_than(most_side, picture), name);
  drop_specks(ink);
  ink = cropped(ink);
  const double scale = static_cast<double>(box) / static_cast<double>(std::max(ink.rows, ink.cols));
  const auto scaled = [scale](int64_t size) {
    return std::max<int64_t>(1, std::lround(static_cast<double>(size) * scale));
  };
  GreyImage digit = resize(ink, scaled(ink.rows), scaled(ink.cols));
  // Thin strokes grow faint when they shrink; MNIST's reach full brightness.
  const int most = std::max<int>(1, *std::max_element(digit.pixels.begin(), digit.pixels.end()));
  for (uint8_t& pixel : digit.pixels) pixel = static_cast<uint8_t>(pixel * 255 / most);
  return centred(digit);
}

std::string draw(std::span<const uint8_t> pixels, int64_t rows, int64_t cols, Drawing drawing) {
  constexpr std::string_view ramp = " .:-=+*#%@";
  constexpr std::string_view upper_half = "\u2580";
  const auto pixel = [&](int64_t row, int64_t col) -> int {
    return row < rows ? pixels[static_cast<size_t>(row * cols + col)] : 0;
  };
  const auto grey = [&](int64_t row, int64_t col) { return 232 + pixel(row, col) * 23 / 255; };
  std::string out;
  for (int64_t row = 0; row < rows; row += drawing == Drawing::text ? 1 : 2) {
    for (int64_t col = 0; col < cols; ++col) {
      if (drawing == Drawing::text) {
        out.append(2, ramp[static_cast<size_t>(pixel(row, col)) * (ramp.size() - 1) / 255]);
      } else {
        out += fmt::format("\033[38;5;{};48;5;{}m{}", grey(row, col), grey(row + 1, col), upper_half);
      }
    }
    out += drawing == Drawing::text ? "\n" : "\033[0m\n";
  }
  return out;
}

}  // namespace miniddp
