/// Internal representation of symbolic expressions.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "ir/dim/dim.h"

namespace rannc::ir {

enum class FactorKind : uint8_t { kSymbol, kFloor, kMod, kMax, kMin };

struct Factor {
  FactorKind kind = FactorKind::kSymbol;
  std::string text;  ///< canonical; the name of a symbol
  Dim a, b;          ///< operands unless a symbol
};

struct Term {
  int64_t scale = 1;
  std::vector<Factor> factors;  ///< sorted by text; empty: the constant term
  std::string key;              ///< product of the factors' texts
};

struct Dim::Expr {
  std::vector<Term> terms;  ///< sorted by key, no zero scale, no duplicate key; the constant term has an empty key
  std::string text;
};

/// Result of sums and products that overflow 64 bits, in either direction.
constexpr int64_t kOverflow = std::numeric_limits<int64_t>::max();

struct DimBuilder {
  static Dim make(std::vector<Term> terms);
  static Dim factor(FactorKind kind, std::string name, Dim a, Dim b);
  static std::vector<Term> terms_of(const Dim& dim);
  /// The terms of an expression that is no constant, without a copy.
  static const std::vector<Term>& symbolic_terms(const Dim& dim) { return dim.expr_->terms; }
  /// Applies a function to two operands.
  static Dim rebuild(FactorKind kind, const Dim& a, const Dim& b);
};

}  // namespace rannc::ir
