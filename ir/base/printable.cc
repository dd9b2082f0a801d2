#include "ir/base/printable.h"

#include <cstdint>
#include <cstdio>

namespace rannc {

namespace {

/// A character of `bytes` bytes that is not printed, or none.
struct Hidden {
  uint32_t code = 0;
  size_t bytes = 0;
};

bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

/// Separators of lines and paragraphs, marks and overrides of direction.
bool reorders(uint32_t code) {
  return (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/// Looks at the character at the start of a text in UTF-8.
Hidden hidden_at(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  if (byte(0) < 0x80) return is_control(byte(0)) ? Hidden{byte(0), 1} : Hidden{};
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && is_control(byte(1))) return {byte(1), 2};
  const uint32_t code = ((byte(0) & 0x0f) << 12) | ((byte(1) & 0x3f) << 6) | (byte(2) & 0x3f);
  return byte(0) == 0xe2 && text.size() > 2 && reorders(code) ? Hidden{code, 3} : Hidden{};
}

}  // namespace

bool is_printable(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (hidden_at(text.substr(i)).bytes > 0) return false;
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Hidden hidden = hidden_at(text);
    if (hidden.bytes == 0) {
      shown += text[0];
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), hidden.bytes == 1 ? "\\x%02x" : "\\u%04x", hidden.code);
      shown += escaped;
    }
    text.remove_prefix(hidden.bytes == 0 ? 1 : hidden.bytes);
  }
  return shown;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    shown += printable(text.substr(0, end)) + "\n  ";
    text.remove_prefix(end + 1);
  }
  return shown + printable(text);
}

}  // namespace rannc
