// From a picture of a digit to what a network that was trained on MNIST expects, and a digit on the terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/data/image.h"

namespace miniddp {

/// Prepares a picture as MNIST was made: ink bright on a dark ground (the picture's border tells which is
/// which), cropped to the ink, scaled to fit 20 x 20, and laid into 28 x 28 with its centre of mass in the
/// middle. Specks and noise are dropped. Throws DataError if nothing stands out from the ground; `name` is
/// the picture's name for the message.
GreyImage to_mnist_digit(const GreyImage& picture, const std::string& name = "the picture");

enum class Drawing {
  text,    // characters of rising darkness, two for each pixel: for pipes and files
  colours  // half blocks in the 24 greys of a 256-colour terminal, two pixels in each
};

/// Lines that show the pixels (rows, cols), bright on dark; each ends with a newline.
std::string draw(std::span<const uint8_t> pixels, int64_t rows, int64_t cols, Drawing drawing);

}  // namespace miniddp
