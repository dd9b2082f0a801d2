/// Expressions of symbols that have the values seen.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/dim/dim.h"

namespace rannc::frontend::torchscript {

/// Where sizes are looked at: each of 2^n corners (symbol i adds its step where bit i is set), then single symbols
/// further out, then all of them.
struct SizeGrid {
  static constexpr size_t kMostSymbols = 5;
  std::vector<std::string> symbols;
  int64_t step = 1;
  int64_t first = 3;  ///< steps of the first symbol's base
  int64_t far = 129;  ///< steps that a single symbol goes out at most
  /// Of symbol i; no two alike, above 1.
  int64_t base(size_t i) const { return step * (first + 2 * static_cast<int64_t>(i)); }
  std::vector<ir::Bindings> points() const;
  size_t corners() const { return size_t{1} << symbols.size(); }
};

/// An expression that has the values seen at all points: a number, one of `likely`, a polynomial that is linear in each
/// symbol, or a floor division of one. Nothing where none is found.
std::optional<ir::Dim> fitted(const SizeGrid& grid, std::span<const int64_t> seen, std::span<const ir::Dim> likely);

}  // namespace rannc::frontend::torchscript
