/// Ranges of numbers that users give, in flags and in files.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rannc {

/// Whole numbers from `least` to `most`. JSON readers of other languages keep those up to 2^53 exact.
struct WholeRange {
  static constexpr uint64_t kMost = uint64_t{1} << 53;
  uint64_t least = 0, most = kMost;

  bool contains(uint64_t number) const { return number >= least && number <= most; }
  /// What is expected, for messages.
  std::string str() const { return fmt::format("a whole number from {} to {}", least, most); }
};

/// Finite numbers from `least` to `most`, without `least` itself if `above` is set.
struct NumberRange {
  static constexpr double kMost = 1e300;
  double least = -kMost, most = kMost;
  bool above = false;

  /// False for NaN.
  bool contains(double number) const { return (above ? number > least : number >= least) && number <= most; }
  /// What is expected, for messages.
  std::string str() const {
    if (most < kMost) return fmt::format("a number {} {} to {}", above ? "above" : "from", least, most);
    if (least == 0) return above ? "a positive number" : "0 or a positive number";
    return least > -kMost ? fmt::format("a number of {} or more", least) : "a number";
  }
};

/// The number that a text is: all of it, in decimal, without spaces or a plus sign. Nothing if it is out of range.
inline std::optional<uint64_t> parse_number(std::string_view text, const WholeRange& range) {
  uint64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = status == std::errc() && end == text.data() + text.size();
  return whole && range.contains(number) ? std::optional(number) : std::nullopt;
}
inline std::optional<double> parse_number(std::string_view text, const NumberRange& range) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = status == std::errc() && end == text.data() + text.size();
  return whole && range.contains(number) ? std::optional(number) : std::nullopt;
}

}  // namespace rannc
