/// Checks of numbers on the command line.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "ir/base/number_range.h"

namespace rannc::tools {

/// Name of the validator that each flag with a number must have (`require_ranges`).
inline constexpr const char* kRangeCheck = "range";

/// Accepts the numbers of a range, written in decimal: neither `010` nor `0x10` is read as another number, as CLI11
/// alone would do. For `Option::transform`.
template <class Range>
CLI::Validator in_range(const Range& range) {
  std::string shown;
  if (range.most < Range::kMost) shown = fmt::format("[{} - {}]", range.least, range.most);
  CLI::Validator check(
      [range](std::string& text) {
        const auto number = parse_number(text, range);
        if (!number) return fmt::format("expected {}, found '{}'", range.str(), text);
        text = fmt::format("{}", *number);
        return std::string();
      },
      shown);
  return check.name(kRangeCheck);
}
inline CLI::Validator whole_number(uint64_t least = 0, uint64_t most = WholeRange::kMost) {
  return in_range(WholeRange{least, most});
}

/// Accepts a name and a number of the range. `form`: of both for messages, such as `TASK=STAGE`. For `Option::check`.
template <class Range>
CLI::Validator named_number(const char* form, const Range& range) {
  return CLI::Validator(
      [form, range](const std::string& text) {
        const size_t at = text.rfind('=');
        const bool pair = at != std::string::npos && at > 0;
        if (pair && parse_number(std::string_view(text).substr(at + 1), range)) return std::string();
        return fmt::format("expected {} with {}, found '{}'", form, range.str(), text);
      },
      form);
}

/// Replaces text, such as `16GiB`, by the number that `parse` returns.
template <class Number>
CLI::Validator parsed_by(Result<Number> (*parse)(std::string_view), const char* form) {
  CLI::Validator check(
      [parse](std::string& text) {
        const Result<Number> value = parse(text);
        if (!value.ok()) return value.diagnostic().message;
        text = fmt::format("{}", *value);
        return std::string();
      },
      form);
  return check.name(kRangeCheck);
}

}  // namespace rannc::tools
