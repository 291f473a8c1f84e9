// What the tests of the exercises say when something is wrong: the first difference, in a learner's words. ./tutorial check prints the
// line that begins with DIFFERENCE.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace miniddp::testing {

/// Ends the test case. On the main thread only.
[[noreturn]] inline void differs(const std::string& what) {
  std::printf("DIFFERENCE %s\n", what.c_str());
  std::fflush(stdout);
  FAIL(what);
  throw Error("a failed test went on");
}

/// `otherwise`: a sentence about what went wrong.
inline void expect(bool condition, const std::string& otherwise) {
  if (!condition) differs(otherwise);
  SUCCEED();
}

/// Whole numbers and texts. `what`: "chunk sizes of 5 samples on 4 devices".
template <class T>
void expect_equal(const std::string& what, const T& found, const T& expected) {
  expect(found == expected, fmt::format("{}: expected {}, found {}", what, expected, found));
}

inline void expect_equal(const std::string& what, const std::string& found, const std::string& expected) {
  expect(found == expected, fmt::format("{}: expected '{}', found '{}'", what, expected, found));
}

/// Lists, such as indices; names the first place where they part.
template <class T>
void expect_equal(const std::string& what, const std::vector<T>& found, const std::vector<T>& expected) {
  if (found.size() != expected.size())
    differs(fmt::format("{}: expected {} of them, {}, found {}, [{}]", what, expected.size(), fmt::format("[{}]", fmt::join(expected, ", ")),
                        found.size(), fmt::join(found, ", ")));
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != expected[i])
      differs(fmt::format("{}: expected {} at index {}, found {} (expected [{}], found [{}])", what, expected[i], i, found[i],
                          fmt::join(expected, ", "), fmt::join(found, ", ")));
  }
  SUCCEED();
}

/// Tensors, on whatever device: shape, dtype and every element.
inline void expect_close(const std::string& what, const Tensor& found, const Tensor& expected, double tolerance) {
  const Comparison result = compare(found, expected, tolerance);
  expect(result.passed, what + ": " + result.message);
}

/// Plain numbers.
inline void expect_close(const std::string& what, const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  const Comparison result = compare(found, expected, tolerance);
  expect(result.passed, what + ": " + result.message);
}

/// Calls f, which must throw an E whose message contains `text`. What an exercise that is not done throws goes on its way.
template <class E, class F>
void expect_throws(const std::string& what, const std::string& text, const F& f) {
  std::string found = "nothing was thrown";
  bool right = false;
  try {
    f();
  } catch (const E& error) {
    found = error.what();
    right = found.find(text) != std::string::npos;
  } catch (const std::exception& error) {
    found = std::string("another kind of error was thrown: ") + error.what();
  }
  if (found.find("is not implemented yet") != std::string::npos) throw Error(found);
  expect(right, fmt::format("{}: expected an error that says '{}', found: {}", what, text, found));
}

}  // namespace miniddp::testing
