/// Ranges that rows of options state (`rannc/compiler/option_row.h`).
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/number_range.h"
#include "rannc/compiler/option_row.h"

namespace rannc::tools {

inline WholeRange range_of(compiler::Whole range) { return {range.least, range.most}; }
inline NumberRange range_of(compiler::Real range) { return {range.least, range.most, range.above}; }
inline NumberRange range_of(compiler::Bytes range) { return {.least = 0, .above = !range.or_zero}; }
inline NumberRange range_of(compiler::Duration) { return {.least = 0, .above = true}; }

/// A table that compares numbers with the ranges of their rows.
template <class Options>
class RangeTable {
 public:
  explicit RangeTable(const Options& options) : options_(options) {}
  void group(const char* /*name*/) {}
  template <class Part, class T, class... More>
  void row(const compiler::OptionRow& row, T Part::*member, const More&... more) {
    if constexpr (std::is_same_v<Part, Options>) (examine(row.flag, options_.*member, more), ...);
  }
  Result<void> result() const { return wrong_.empty() ? Result<void>() : error(wrong_); }

 private:
  template <class T, class Other>
  void examine(const char* /*flag*/, const T& /*value*/, const Other& /*choices*/) {}
  template <class Number, class Range>
  requires requires(Range range) { range_of(range); }
  void examine(const char* flag, const std::vector<Number>& numbers, const Range& range) {
    for (const Number number : numbers) examine(flag, number, range);
  }
  template <class Number, class Range>
  requires requires(Range range) { range_of(range); }
  void examine(const char* flag, const std::optional<Number>& number, const Range& range) {
    if (number) examine(flag, *number, range);
  }
  template <class Number, class Range>
  requires std::is_arithmetic_v<Number> && requires(Range range) { range_of(range); }
  void examine(const char* flag, const Number& number, const Range& range) {
    if (!wrong_.empty() || range_of(range).contains(number)) return;
    wrong_ = fmt::format("{} {}: expected {}", flag, number, range_of(range).str());
  }

  const Options& options_;
  std::string wrong_;
};

/// Returns an error that names the first option whose number is out of its range.
template <class Options>
Result<void> check_ranges(const Options& options) {
  RangeTable<Options> table(options);
  Options::rows(table);
  return table.result();
}

}  // namespace rannc::tools
