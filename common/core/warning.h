// Warnings: something works, but probably not as intended.
#pragma once

#include <functional>
#include <string>

namespace miniddp {

/// Prints "warning: …" on stderr, each message once in the life of the program. Any thread may call it.
void warn(const std::string& message);

/// Gives every warning to `handler` instead (repeated ones too); an empty one restores printing. Returns the handler before.
using WarningHandler = std::function<void(const std::string& message)>;
WarningHandler set_warning_handler(WarningHandler handler);

}  // namespace miniddp
