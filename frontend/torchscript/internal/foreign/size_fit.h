/// Fits size expressions to observed values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/dim/dim.h"

namespace rannc::frontend::torchscript {

/// Points at which sizes are observed: 2^n corners (symbol i adds a step if bit i is set), then points further out
/// along single symbols, then along all of them.
struct SizeGrid {
  static constexpr size_t kMostSymbols = 5;
  std::vector<std::string> symbols;
  int64_t step = 1;
  int64_t first = 3;  ///< base of the first symbol, in steps
  int64_t far = 129;  ///< largest distance along a single symbol, in steps
  /// Base of symbol i. Bases are distinct and greater than 1.
  int64_t base(size_t i) const { return step * (first + 2 * static_cast<int64_t>(i)); }
  std::vector<ir::Bindings> points() const;
  size_t corners() const { return size_t{1} << symbols.size(); }
};

/// Returns an expression with the observed values at all points: a number, one of `likely`, a polynomial that is linear
/// in each symbol, or the floor division of one. Returns nothing if there is none.
std::optional<ir::Dim> fitted(const SizeGrid& grid, std::span<const int64_t> seen, std::span<const ir::Dim> likely);

}  // namespace rannc::frontend::torchscript
