/// Lines of a method's body.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace rannc::codegen {

/// Every line that is not empty, four blanks in, each with its end of line.
inline std::string indented(std::string_view statements) {
  std::string text;
  while (!statements.empty()) {
    const size_t end = std::min(statements.find('\n'), statements.size());
    if (end > 0) text.append("    ").append(statements.substr(0, end)).append("\n");
    statements.remove_prefix(std::min(end + 1, statements.size()));
  }
  return text;
}

}  // namespace rannc::codegen
