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
