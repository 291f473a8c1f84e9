// The comparisons that every other test trusts: they must be able to fail.
#include "tests/support/compare.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

#include "tests/support/catch.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {
const double nan_value = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();
using Series = std::vector<double>;

bool mentions(const Comparison& result, const std::string& text) { return result.message.find(text) != std::string::npos; }
}  // namespace

TEST_CASE("compare: within the tolerance passes, the bound included") {
  const Comparison result = compare(Series{1.0, 2.5, -3.0}, Series{1.0, 2.0, -3.0}, 0.5);
  CHECK(result.passed);
  CHECK(result.largest == 0.5);
}

TEST_CASE("compare: the first difference is named with both values") {
  const Comparison result = compare(Series{1.0, 2.0, 3.25, 5.0}, Series{1.0, 2.0, 3.0, 4.0}, 0.125, "step");
  CHECK_FALSE(result.passed);
  CHECK(mentions(result, "step 2: expected 3, found 3.25"));
  CHECK(mentions(result, "2 of 4 differ"));
  CHECK(result.largest == 1.0);
}

TEST_CASE("compare: NaN never passes, on either side, whatever the tolerance") {
  CHECK_FALSE(compare(Series{1.0, nan_value}, Series{1.0, 2.0}, 1e9).passed);
  CHECK_FALSE(compare(Series{1.0, 2.0}, Series{1.0, nan_value}, 1e9).passed);
  CHECK_FALSE(compare(Series{1.0, nan_value}, Series{1.0, nan_value}, 1e9).passed);
  CHECK_FALSE(compare(Series{1.0, 2.0}, Series{1.0, 2.0}, nan_value).passed);
  CHECK_FALSE(compare(Series{1.0, infinity}, Series{1.0, infinity}, 1e9).passed);
}

TEST_CASE("compare: NaN counts as an infinite difference even if a finite one follows") {
  CHECK(compare(Series{nan_value, 5.0}, Series{1.0, 2.0}, 0.5).largest == infinity);
}

TEST_CASE("compare: a reference that proves nothing is an error") {
  CHECK_THROWS_AS(compare(Series{}, Series{}, 1e-5), Error);
  CHECK_THROWS_AS(compare(Series{0.0, 0.0}, Series{0.0, 0.0}, 1e-5), Error);
  CHECK_THROWS_AS(compare_first(3, Series{1.0, 2.0, 3.0}, Series{1.0, 2.0}, 1e-5), Error);
}

TEST_CASE("compare: different lengths fail, also when only the beginning is compared") {
  CHECK_FALSE(compare(Series{1.0}, Series{1.0, 2.0}, 1.0).passed);
  CHECK_FALSE(compare(Series{1.0, 2.0, 3.0}, Series{1.0, 2.0}, 1.0).passed);
  CHECK_FALSE(compare_first(2, Series{1.0}, Series{1.0, 2.0}, 1.0).passed);
  CHECK(compare_first(2, Series{1.0, 2.0}, Series{1.0, 2.0, 9.0}, 1e-6).passed);
}

TEST_CASE("compare: tensors name the index, and shapes and dtypes must agree") {
  const Tensor expected = Tensor::from({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3});
  const Tensor found = Tensor::from({1.f, 2.f, 3.f, 4.f, 5.f, 7.f}, {2, 3});
  CHECK(compare(expected, expected, 0).passed);
  CHECK(mentions(compare(found, expected, 0.5), "(1, 2): expected 6, found 7"));
  CHECK_FALSE(compare(expected.view({3, 2}), expected, 1).passed);
  CHECK_FALSE(compare(expected.to(DType::float64), expected, 1).passed);
  CHECK_FALSE(compare(Tensor(), expected, 1).passed);
  CHECK_THROWS_AS(compare(expected, Tensor::zeros({2, 3}), 1), Error);
}

TEST_CASE("read_loss_csv: reads rows, refuses damage") {
  const std::string path = std::string(MINIDDP_BINARY_DIR) + "/read_loss_csv_test.csv";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  write("step,loss\n0,2.25\n1,-1e-3\n2,nan\n");
  CHECK(read_loss_csv(path, 2) == Series{2.25, -1e-3});
  REQUIRE(read_loss_csv(path).size() == 3);
  CHECK(std::isnan(read_loss_csv(path)[2]));
  for (const char* damaged : {"0,2.25\n", "step,loss\n0,2.25\n2,1\n", "step,loss\n0,two\n", "step,loss\n0\n", "step,loss\n0,1.5 apples\n", ""}) {
    write(damaged);
    INFO(damaged);
    CHECK_THROWS_AS(read_loss_csv(path), DataError);
  }
  std::remove(path.c_str());
  CHECK_THROWS_AS(read_loss_csv(path), DataError);
}
