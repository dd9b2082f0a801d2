/// Indentation of generated source.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace rannc::codegen {

/// Returns the non-empty lines of `statements`, each indented by four spaces and ended by a newline.
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
