/// Symbolic integer expressions for dimensions and for the contents of integer values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::ir {

/// Values of symbols: `{"batch": 3}`.
using Bindings = std::map<std::string, int64_t, std::less<>>;

/// An integer, or a canonical expression: a sum of integer multiples of products of symbols, floor divisions, modulos,
/// maxima and minima. Equal expressions have equal text, so comparison is structural. Immutable; copies share.
class Dim {
 public:
  Dim() = default;
  Dim(int64_t value) : value_(value) {}  // NOLINT: a number is a dimension
  /// The symbol `name`: a letter or underscore followed by letters, digits, underscores or dots.
  static Dim symbol(std::string_view name);

  bool is_constant() const { return expr_ == nullptr; }
  /// The integer. Requires `is_constant()`.
  int64_t constant() const;
  bool is_symbol() const;
  /// The symbol's name. Requires `is_symbol()`.
  const std::string& symbol_name() const;

  /// Canonical text: `12*batch + 1`, `floor((s0*s1)/s2)`, `mod(batch, 4)`, `max(a, b)`. `parse(str()) == *this`.
  std::string str() const;
  /// Parses canonical text and the spellings of exporters (`s70*s72`, `((s43*s53)//s72)`, `batch % 2`, `Max(a, b)`).
  static Result<Dim> parse(std::string_view text);

  /// The integer under `bindings`; nothing if a symbol is unbound, a divisor is zero or an integer overflows.
  std::optional<int64_t> evaluate(const Bindings& bindings) const;
  /// The expression with a symbol replaced.
  Dim substitute(std::string_view symbol, const Dim& by) const;
  void collect_symbols(std::set<std::string>& into) const;
  bool uses(std::string_view symbol) const;
  /// Equal dimensions have equal hashes within one run of the program.
  size_t hash() const { return expr_ ? expr_hash() : static_cast<size_t>(value_) * 0x9e3779b97f4a7c15ULL; }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);

  struct Expr;

 private:
  size_t expr_hash() const;
  explicit Dim(std::shared_ptr<const Expr> expr) : expr_(std::move(expr)) {}
  friend struct DimBuilder;
  int64_t value_ = 0;
  std::shared_ptr<const Expr> expr_;  ///< null for a plain integer
};

/// The exact quotient of polynomials (`12*batch / 12`, `(s*s + s) / (s + 1)`); nothing if a remainder is left.
std::optional<Dim> exact_div(const Dim& a, const Dim& b);

using Shape = std::vector<Dim>;

/// Formats as `[batch, 12, 64]`.
std::string str(const Shape& shape);
/// Product of all dimensions; 1 for rank 0.
Dim element_count(const Shape& shape);

}  // namespace rannc::ir
