// Warnings, caught instead of printed.
#pragma once

#include <string>
#include <vector>

#include "common/core/warning.h"

namespace miniddp::testing {

/// Collects every warning while it lives.
class CaughtWarnings {
 public:
  CaughtWarnings() : before_(set_warning_handler([this](const std::string& message) { messages_.push_back(message); })) {}
  ~CaughtWarnings() { set_warning_handler(before_); }
  CaughtWarnings(const CaughtWarnings&) = delete;
  CaughtWarnings& operator=(const CaughtWarnings&) = delete;

  const std::vector<std::string>& messages() const { return messages_; }

 private:
  std::vector<std::string> messages_;
  WarningHandler before_;
};

}  // namespace miniddp::testing
