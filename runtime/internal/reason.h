/// Messages of exceptions for users.
#pragma once

#include <exception>
#include <string>

namespace rannc::runtime {

/// Returns the message of an exception without LibTorch's trace of calls.
inline std::string reason_of(const std::exception& failure) {
  const std::string text = failure.what();
  return text.substr(0, text.find("\nException raised from"));
}

}  // namespace rannc::runtime
