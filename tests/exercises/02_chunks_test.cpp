// Tests of the exercises of chapter 02: tensors and their chunks.
#include "chapters/02_manual_parallel/chunks.h"
#include "tests/exercises/expect.h"
#include "tests/support/against_float64.h"

using namespace miniddp;
using namespace miniddp::testing;

TEST_CASE("02.2 a tensor's chunks", "[02.2]") {
  const Device first{DeviceType::cpu, 0};
  const std::vector<Device> devices{first, {DeviceType::cpu, 1}, {DeviceType::cpu, 2}};
  Generator generator(3);
  const Tensor whole = random_tensor({7, 5, 2}, generator);
  const std::vector<double> values = to_doubles(whole);
  for (const auto& [dim, sizes] : {std::pair<int64_t, std::vector<int64_t>>{0, {3, 3, 1}}, {1, {2, 2, 1}}, {2, {1, 1}}}) {
    const std::vector<Tensor> chunks = split(whole, sizes, devices, dim, {"scatter", "input"});
    expect_equal(fmt::format("number of chunks along dimension {}", dim), chunks.size(), sizes.size());
    int64_t start = 0;
    for (size_t i = 0; i < chunks.size(); ++i) {
      const std::string name = fmt::format("chunk {} along dimension {}", i, dim);
      Shape shape{7, 5, 2};
      shape[static_cast<size_t>(dim)] = sizes[i];
      expect_equal("shape of " + name, chunks[i].shape(), shape);
      expect_equal("device of " + name, chunks[i].device().str(), devices[i].str());
      std::vector<double> expected;
      for (int64_t a = 0; a < 7; ++a) {
        for (int64_t b = 0; b < 5; ++b) {
          for (int64_t c = 0; c < 2; ++c) {
            const int64_t at = dim == 0 ? a : dim == 1 ? b : c;
            if (at >= start && at < start + sizes[i]) expected.push_back(values[static_cast<size_t>((a * 5 + b) * 2 + c)]);
          }
        }
      }
      expect_close(name, to_doubles(chunks[i]), expected, 0);
      const bool view = dim == 0 && i == 0;
      expect(chunks[i].shares_storage_with(whole) == view,
             name + (view ? " is on its device already and should share the memory" : " should have memory of its own"));
      start += sizes[i];
    }
  }
}

TEST_CASE("02.3 chunks become one tensor", "[02.3]") {
  const std::vector<Device> devices{{DeviceType::cpu, 0}, {DeviceType::cpu, 1}, {DeviceType::cpu, 2}};
  Generator generator(4);
  for (const auto& [dim, sizes] : {std::pair<int64_t, std::vector<int64_t>>{0, {3, 3, 1}}, {1, {2, 2, 1}}, {2, {1, 2, 2}}}) {
    for (const size_t missing : {size_t{3}, size_t{1}}) {  // none, or the middle one
      const Shape shape = dim == 0 ? Shape{7, 2, 3} : dim == 1 ? Shape{3, 5, 2} : Shape{2, 3, 5};
      std::vector<Tensor> chunks;
      std::vector<std::vector<double>> values;
      for (size_t i = 0; i < sizes.size(); ++i) {
        Shape part = shape;
        part[static_cast<size_t>(dim)] = sizes[i];
        const Tensor chunk = random_tensor(part, generator);
        values.push_back(i == missing ? std::vector<double>(static_cast<size_t>(chunk.numel())) : to_doubles(chunk));
        chunks.push_back(i == missing ? Tensor() : chunk.to(devices[i]));
      }
      std::vector<double> expected;
      std::vector<size_t> next(sizes.size());
      for (int64_t a = 0; a < shape[0]; ++a) {
        for (int64_t b = 0; b < shape[1]; ++b) {
          for (int64_t c = 0; c < shape[2]; ++c) {
            int64_t at = dim == 0 ? a : dim == 1 ? b : c;
            size_t i = 0;
            for (; at >= sizes[i]; ++i) at -= sizes[i];
            expected.push_back(values[i][next[i]++]);
          }
        }
      }
      Tensor whole = Tensor::full(shape, 9, DType::float32, devices[1]);
      join(chunks, sizes, dim, whole, {"gather", "outputs"});
      expect_close(fmt::format("three chunks along dimension {}{}", dim, missing < 3 ? ", the middle one undefined" : ""), to_doubles(whole),
                   expected, 0);
    }
  }
}
