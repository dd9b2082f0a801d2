#include "tools/common/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace rannc::tools {

namespace {

/// Splits a text into a decimal number and its unit.
std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (failed != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  return std::pair(value, text);
}

}  // namespace

std::string duration(double ns) {
  if (ns >= 1e18) return fmt::format("{:.3g} s", ns / 1e9);
  if (ns >= 1e9) return fmt::format("{:.2f} s", ns / 1e9);
  if (ns >= 1e6) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.1f} us", ns / 1e3);
}

std::string bytes(double count) {
  if (count >= 0x1p60) return fmt::format("{:.3g} GiB", count / (1 << 30));
  if (count >= 1 << 30) return fmt::format("{:.2f} GiB", count / (1 << 30));
  if (count >= 1 << 20) return fmt::format("{:.1f} MiB", count / (1 << 20));
  return fmt::format("{:.1f} KiB", count / 1024);
}

std::string count(uint64_t number) {
  const auto amount = static_cast<double>(number);
  if (amount >= 99.95e9) return fmt::format("{:.0f} B", amount / 1e9);
  if (amount >= 999.5e6) return fmt::format("{:.3g} B", amount / 1e9);
  if (amount >= 1e7) return fmt::format("{:.3g} M", amount / 1e6);
  std::string text = std::to_string(number);
  for (size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

Result<double> parse_duration(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}};
  constexpr double kYear = 365.0 * 86400 * 1e9;
  const auto parts = number_and_unit(text);
  for (const auto& [unit, ns] : kUnits) {
    if (!parts || parts->second != unit) continue;
    const double value = parts->first * ns;
    if (value > 0 && value <= kYear) return value;
    return error(fmt::format("'{}' is not between 0 and a year", text));
  }
  return error(fmt::format("'{}' is not a duration: expected a number with ns, us, ms, s or min, such as 120ms", text));
}

Result<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kPrefixes = "KMGTkmgt";
  const auto parts = number_and_unit(text);
  const Diagnostic none = error(
      fmt::format("'{}' is not a size: expected bytes, or a number with KiB, MiB, GiB or TiB, such as 16GiB", text));
  if (!parts) return none;
  std::string_view unit = parts->second;
  double factor = 1;
  if (const size_t prefix = unit.empty() ? std::string_view::npos : kPrefixes.find(unit.front());
      prefix != std::string_view::npos) {
    factor = std::pow(1024.0, static_cast<double>(prefix % 4 + 1));
    unit.remove_prefix(1);
    if (unit.starts_with('i')) unit.remove_prefix(1);
  }
  if (!unit.empty() && unit != "B" && unit != "b") return none;
  const double value = std::round(parts->first * factor);
  if (value >= 1 && value < 0x1p60) return static_cast<uint64_t>(value);
  return error(fmt::format("'{}' is not between 1 byte and 2^60 bytes", text));
}

Result<uint64_t> parse_bytes_or_zero(std::string_view text) {
  return text == "0" ? Result<uint64_t>(uint64_t{0}) : parse_bytes(text);
}

}  // namespace rannc::tools
