// Simplification of expressions by equalities, as division by polynomials.
//
// An equality is a polynomial in its factors that is zero. Its largest product is replaced by the rest, as in a Gröbner
// basis over the integers: `k` times the product becomes `k / scale` times the rest, and a remainder stays. The order
// counts the functions and symbols of a product, so that a replacement makes the expression simpler. Overlaps of
// equalities are not completed: an equality that follows from several may be missed, which costs another assumption.
#include "ir/dim/dim_rewrite.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "ir/dim/internal/dim_expr.h"

namespace rannc::ir {

namespace {

constexpr int kMostRounds = 64;  // replacements simplify; this bounds those that only look simpler

size_t effort(const Dim& dim);

size_t effort(const Term& term) {
  size_t sum = 0;
  for (const Factor& factor : term.factors) {
    sum += factor.kind == FactorKind::kSymbol ? 1 : 3 + effort(factor.a) + effort(factor.b);
  }
  return sum;
}

size_t effort(const Dim& dim) {
  size_t sum = 0;
  for (const Term& term : DimBuilder::terms_of(dim)) sum += 1 + effort(term);
  return sum;
}

bool is_simpler(const Term& a, const Term& b) {
  return std::tuple(effort(a), a.factors.size(), a.key) < std::tuple(effort(b), b.factors.size(), b.key);
}

bool has_function(const Dim& dim) {
  if (dim.is_constant()) return false;
  for (const Term& term : DimBuilder::symbolic_terms(dim)) {
    const auto is_function = [](const Factor& factor) { return factor.kind != FactorKind::kSymbol; };
    if (std::any_of(term.factors.begin(), term.factors.end(), is_function)) return true;
  }
  return false;
}

bool is_defined_by(const Dim& side, const Dim& other) {
  return side.is_symbol() && !has_function(other) && !other.uses(side.symbol_name());
}

bool has_factors_of(const Term& product, const Term& term) {
  return std::all_of(product.factors.begin(), product.factors.end(), [&](const Factor& factor) {
    return std::any_of(term.factors.begin(), term.factors.end(),
                       [&](const Factor& other) { return other.text == factor.text; });
  });
}

// The factors of `term` beside those of `product`; nothing if some are missing.
std::optional<Dim> beside(const Term& term, const Term& product) {
  if (!has_factors_of(product, term)) return std::nullopt;
  Dim rest = 1;
  std::vector<Factor> missing = product.factors;
  for (const Factor& factor : term.factors) {
    const auto found =
        std::find_if(missing.begin(), missing.end(), [&](const Factor& other) { return other.text == factor.text; });
    if (found == missing.end()) {
      rest = rest * DimBuilder::make({Term{1, {factor}, factor.text}});
    } else {
      missing.erase(found);
    }
  }
  return missing.empty() ? std::optional(rest) : std::nullopt;
}

}  // namespace

Simplifier::Simplifier(std::span<const Equality> equalities) {
  for (const Equality& equality : equalities) {
    for (Replacement& each : replacements_of(equality)) replacements_.push_back(std::move(each));
  }
}

// At most one; none if an equality of numbers is no equality.
std::vector<Simplifier::Replacement> Simplifier::replacements_of(const Equality& equality) {
  for (const auto& [side, other] : {equality, Equality{equality.second, equality.first}}) {
    if (is_defined_by(side, other)) return {{side, other}};
  }
  const Dim zero = equality.first - equality.second;
  const std::vector<Term> terms = DimBuilder::terms_of(zero);
  const auto largest = std::max_element(terms.begin(), terms.end(), is_simpler);
  if (largest == terms.end() || largest->factors.empty()) return {};
  const Dim product = DimBuilder::make({*largest});
  return {largest->scale < 0 ? Replacement{product * Dim(-1), zero - product} : Replacement{product, product - zero}};
}

// Simplifies the operands of functions.
Dim Simplifier::inside(const Dim& dim) const {
  if (!has_function(dim)) return dim;
  Dim sum = 0;
  for (const Term& term : DimBuilder::symbolic_terms(dim)) {
    Dim product = term.scale;
    for (const Factor& factor : term.factors) {
      const bool symbol = factor.kind == FactorKind::kSymbol;
      product = product * (symbol ? Dim::symbol(factor.text)
                                  : DimBuilder::rebuild(factor.kind, (*this)(factor.a), (*this)(factor.b)));
    }
    sum = sum + product;
  }
  return sum;
}

Dim Simplifier::replaced(const Dim& dim) const {
  Dim now = dim;
  for (const Replacement& each : replacements_) {
    if (now.is_constant()) break;
    const Term& product = DimBuilder::symbolic_terms(each.product)[0];
    const Dim before = now;
    for (const Term& term : DimBuilder::symbolic_terms(before)) {
      const int64_t times = term.scale / product.scale;
      const auto others = times == 0 ? std::nullopt : beside(term, product);
      if (others) now = now + (each.by - each.product) * *others * Dim(times);
    }
  }
  return now;
}

Dim Simplifier::operator()(const Dim& dim) const {
  if (dim.is_constant() || replacements_.empty()) return dim;
  Dim now = inside(dim);
  for (int round = 0; round < kMostRounds; ++round) {
    const Dim next = inside(replaced(now));
    if (next == now) break;
    now = next;
  }
  return now;
}

bool Simplifier::implies(const Equality& equality) const {
  const Dim left = (*this)(equality.first), right = (*this)(equality.second);
  return left == right || (*this)(left - right) == Dim(0);
}

}  // namespace rannc::ir
