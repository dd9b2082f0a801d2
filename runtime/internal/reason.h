/// Messages of failures for users.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

/// Returns the message of an exception without LibTorch's trace of calls.
inline std::string reason_of(const std::exception& failure) {
  const std::string text = failure.what();
  return text.substr(0, text.find("\nException raised from"));
}

/// Returns the text of a diagnostic without the severity, which the printer of the message that contains it adds.
inline std::string without_severity(const Diagnostic& reason) {
  constexpr std::string_view kWord = "error: ";
  std::string text = reason.str();
  if (const size_t at = text.find(kWord); at != std::string::npos) text.erase(at, kWord.size());
  return text;
}

}  // namespace rannc::runtime
