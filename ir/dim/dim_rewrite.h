/// Simplification of expressions by equalities that are assumed to hold.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "ir/dim/dim.h"

namespace rannc::ir {

/// Applies equalities to expressions and to all expressions inside them. The most complex product of an equality is
/// replaced by the rest: `2*floor((h - 1)/2)` by `h - 2` for the equality with `2*floor((h - 1)/2) + 2` and `h`. A side
/// that is a symbol is replaced by the other side if that has only numbers and symbols.
class Simplifier {
 public:
  using Equality = std::pair<Dim, Dim>;
  explicit Simplifier(std::span<const Equality> equalities);
  Dim operator()(const Dim& dim) const;
  /// Whether the equalities imply this one.
  bool implies(const Equality& equality) const;

 private:
  struct Replacement {
    Dim product;  ///< one term of positive scale
    Dim by;
  };
  static std::vector<Replacement> replacements_of(const Equality& equality);
  Dim replaced(const Dim& dim) const;
  Dim inside(const Dim& dim) const;

  std::vector<Replacement> replacements_;
};

}  // namespace rannc::ir
