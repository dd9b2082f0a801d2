#include "tests/runtime/transport/fuzz/frames.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace rannc::fuzz {

namespace {

constexpr size_t kMostBytes = 2 << 20;
constexpr size_t kShortestRun = 4;

/// Reads a number from the front of `text` if it begins with one.
bool take_number(std::string_view& text, size_t digits, int base, uint64_t& value) {
  const char* const end = text.data() + std::min(digits, text.size());
  const auto [rest, status] = std::from_chars(text.data(), end, value, base);
  if (status != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return true;
}

void skip_to(std::string_view& text, char last) { text.remove_prefix(std::min(text.find(last), text.size() - 1) + 1); }

}  // namespace

std::string bytes_of(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    uint64_t byte = 0, count = 1;
    if (text.front() == '#') {
      skip_to(text, '\n');
    } else if (text.front() == '"') {
      text.remove_prefix(1);
      bytes += text.substr(0, text.find('"'));
      if (!text.empty()) skip_to(text, '"');
    } else if (take_number(text, 2, 16, byte)) {
      if (text.starts_with('x')) text.remove_prefix(1), take_number(text, text.size(), 10, count);
      bytes.append(std::min<uint64_t>(count, kMostBytes - std::min(kMostBytes, bytes.size())), static_cast<char>(byte));
    } else {
      text.remove_prefix(1);
    }
  }
  return bytes;
}

std::string text_of(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  while (!bytes.empty()) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    const size_t run = std::min(bytes.find_first_not_of(bytes.front()), bytes.size());
    const size_t count = run < kShortestRun ? 1 : run;
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
    if (count > 1) text += "x" + std::to_string(count);
    text += ' ';
    bytes.remove_prefix(count);
  }
  return text;
}

}  // namespace rannc::fuzz
