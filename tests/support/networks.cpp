#include "tests/support/networks.h"

#include <algorithm>
#include <vector>

namespace miniddp::testing {

Mini::Mini() {
  register_module("conv1", &Mini::conv1);
  register_module("conv2", &Mini::conv2);
  register_module("fc", &Mini::fc);
}

Tensor Mini::forward(const Tensor& x) {
  Tensor h = functional::max_pool2d(functional::relu(conv1(x)), 2);  // (N, 8, 13, 13)
  h = functional::max_pool2d(functional::relu(conv2(h)), 2);         // (N, 16, 5, 5)
  return fc(functional::flatten(h));
}

Net::Net() {
  register_module("conv1", &Net::conv1);
  register_module("conv2", &Net::conv2);
  register_module("fc1", &Net::fc1);
  register_module("fc2", &Net::fc2);
}

Tensor Net::forward(const Tensor& x) {
  Tensor h = functional::relu(conv1(x));                   // (N, 32, 26, 26)
  h = functional::max_pool2d(functional::relu(conv2(h)), 2);  // (N, 64, 12, 12)
  return fc2(functional::relu(fc1(functional::flatten(h))));
}

Samples random_samples(uint64_t seed, int64_t n) {
  Generator generator(seed);
  std::vector<float> images(static_cast<size_t>(n) * 28 * 28);
  std::generate(images.begin(), images.end(), [&] { return generator.rand(); });
  std::vector<int64_t> labels(static_cast<size_t>(n));
  std::generate(labels.begin(), labels.end(), [&] { return generator.randint(0, 10); });
  return {Tensor::from(images, {n, 1, 28, 28}), Tensor::from(labels, {n})};
}

Samples select(const Samples& samples, std::span<const int64_t> indices) {
  const int64_t n = static_cast<int64_t>(indices.size());
  const int64_t pixels = samples.images.numel() / samples.images.size(0);
  std::vector<float> images;
  std::vector<int64_t> labels;
  const float* all_images = samples.images.data<float>();
  const int64_t* all_labels = samples.labels.data<int64_t>();
  for (const int64_t index : indices) {
    images.insert(images.end(), all_images + index * pixels, all_images + (index + 1) * pixels);
    labels.push_back(all_labels[index]);
  }
  return {Tensor::from(images, {n, 1, 28, 28}), Tensor::from(labels, {n})};
}

}  // namespace miniddp::testing
