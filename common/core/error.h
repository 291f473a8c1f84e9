// Errors of the whole project. A message says what was expected, what was found and what to do.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace miniddp {

/// Base of every error this project throws. Programs print it as `error: …` and exit 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  template <class... Args>
    requires(sizeof...(Args) > 0)
  explicit Error(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

/// Shapes or sizes that do not fit together.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A tensor on the wrong device, or a device that does not exist.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A file that is missing, damaged or not what it claims to be.
class DataError : public Error {
 public:
  using Error::Error;
};

/// A wait that reached its limit.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// A wrong command line. Programs exit 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Throws E with the formatted message unless `condition` holds.
template <class E = Error, class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace miniddp
