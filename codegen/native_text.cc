#include "codegen/internal/native_text.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace rannc::codegen {

namespace {

constexpr size_t kColumns = 120;

}  // namespace

std::string integer(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "std::numeric_limits<int64_t>::min()";
  const bool fits = value == static_cast<int32_t>(value);
  return fmt::format("{}{}", value, fits ? "" : "L");
}

std::string decimal(double finite) {
  std::string text = fmt::format("{}", finite);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string number(double value) {
  if (std::isnan(value)) return "kNaN";
  if (std::isinf(value)) return value > 0 ? "kInfinity" : "-kInfinity";
  return decimal(value);
}

std::string literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    const auto code = static_cast<unsigned char>(c);
    quoted += code < ' ' ? fmt::format("\\{:03o}", code) : std::string(1, c);
  }
  return quoted + "\"";
}

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
    if (c == '\\') c = '/';
  }
  return line;
}

std::string wrapped(const std::string& text, const std::string& more) {
  std::string lines, rest = "  " + text;
  while (rest.size() > kColumns) {
    const size_t cut = rest.rfind(", ", kColumns - 1);
    if (cut == std::string::npos || cut < 8) break;
    lines += rest.substr(0, cut + 1) + "\n";
    rest = "      " + rest.substr(cut + 2);
  }
  if (more.empty()) return lines + rest + "\n";
  const bool same_line = rest.size() + 1 + more.size() <= kColumns;
  if (same_line) return lines + rest + " " + more + "\n";
  return lines + rest + "\n" + wrapped(more);
}

}  // namespace rannc::codegen
