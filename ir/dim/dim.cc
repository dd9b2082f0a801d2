// Canonical integer expressions.
//
// An expression is a sum of terms. A term is an integer times a sorted product of factors. A factor is a symbol or one
// of floor, mod, max, min of two expressions. Terms are sorted by the text of their product, so equal sums print
// equally. The text is computed once, and equality compares it.
#include "ir/dim/dim.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

#include "ir/base/printable.h"
#include "ir/dim/dim_parser.h"
#include "ir/dim/internal/dim_expr.h"

namespace rannc::ir {

namespace {

// A product of more terms counts as overflow, and a quotient by a sum of more as none: no shape has them, but a hostile
// file may.
constexpr size_t kMaxTerms = 4096, kMaxQuotient = 64;

// Saturates. Sizes beyond 2^63 are rejected when they are evaluated.
int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? kOverflow : out;
}
int64_t saturating_add(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? kOverflow : out;
}

std::string key_of(const std::vector<Factor>& factors) {
  std::string key;
  for (const Factor& factor : factors) key += (key.empty() ? "" : "*") + factor.text;
  return key;
}

std::string text_of(const std::vector<Term>& terms) {
  std::string text;
  auto append = [&text](const Term& term) {
    // INT64_MIN has no positive counterpart: it keeps its own sign.
    const bool negative = term.scale < 0 && (text.empty() || term.scale != INT64_MIN);
    if (!text.empty()) text += negative ? " - " : " + ";
    if (text.empty() && negative) text += "-";
    const std::string scale = std::to_string(term.scale).substr(negative ? 1 : 0);
    if (term.key.empty()) {
      text += scale;
    } else {
      text += (scale == "1" ? "" : scale + "*") + term.key;
    }
  };
  for (const Term& term : terms) {
    if (!term.key.empty()) append(term);
  }
  for (const Term& term : terms) {
    if (term.key.empty()) append(term);
  }
  return text;
}

const char* function_name(FactorKind kind) {
  switch (kind) {
    case FactorKind::kMod:
      return "mod";
    case FactorKind::kMax:
      return "max";
    case FactorKind::kMin:
      return "min";
    default:
      return "floor";
  }
}

std::vector<Term> multiply(const std::vector<Term>& a, const std::vector<Term>& b) {
  std::vector<Term> product;
  for (const Term& x : a) {
    for (const Term& y : b) {
      Term term{saturating_mul(x.scale, y.scale), x.factors, {}};
      term.factors.insert(term.factors.end(), y.factors.begin(), y.factors.end());
      std::sort(term.factors.begin(), term.factors.end(),
                [](const Factor& l, const Factor& r) { return l.text < r.text; });
      term.key = key_of(term.factors);
      product.push_back(std::move(term));
    }
  }
  return product;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

// Does not use a - floor_quotient(a, b) * b, because the product may be below -2^63 even if the remainder is not.
int64_t floor_remainder(int64_t a, int64_t b) {
  const int64_t remainder = a % b;
  return (remainder != 0 && (remainder < 0) != (b < 0)) ? remainder + b : remainder;
}

std::optional<int64_t> apply(FactorKind kind, int64_t a, int64_t b) {
  if ((kind == FactorKind::kFloor || kind == FactorKind::kMod) && (b == 0 || (a == INT64_MIN && b == -1))) {
    return std::nullopt;
  }
  switch (kind) {
    case FactorKind::kFloor:
      return floor_quotient(a, b);
    case FactorKind::kMod:
      return floor_remainder(a, b);
    case FactorKind::kMax:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}

}  // namespace

Dim DimBuilder::rebuild(FactorKind kind, const Dim& a, const Dim& b) {
  switch (kind) {
    case FactorKind::kFloor:
      return floor_div(a, b);
    case FactorKind::kMod:
      return mod(a, b);
    case FactorKind::kMax:
      return max(a, b);
    default:
      return min(a, b);
  }
}

Dim DimBuilder::make(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& l, const Term& r) { return l.key < r.key; });
  std::vector<Term> merged;
  for (Term& term : terms) {
    if (!merged.empty() && merged.back().key == term.key) {
      merged.back().scale = saturating_add(merged.back().scale, term.scale);
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const Term& term) { return term.scale == 0; });
  if (merged.empty()) return Dim(0);
  if (merged.size() == 1 && merged[0].key.empty()) return Dim(merged[0].scale);
  auto expr = std::make_shared<Dim::Expr>();
  expr->text = text_of(merged);
  expr->terms = std::move(merged);
  return Dim(std::shared_ptr<const Dim::Expr>(std::move(expr)));
}

Dim DimBuilder::factor(FactorKind kind, std::string name, Dim a, Dim b) {
  Factor factor{kind, std::move(name), a, b};
  if (kind == FactorKind::kFloor) {
    factor.text = "floor((" + a.str() + ")/(" + b.str() + "))";
  } else if (kind != FactorKind::kSymbol) {
    factor.text = std::string(function_name(kind)) + "(" + a.str() + ", " + b.str() + ")";
  }
  Term term{1, {factor}, factor.text};
  return make({std::move(term)});
}

std::vector<Term> DimBuilder::terms_of(const Dim& dim) {
  if (dim.expr_) return dim.expr_->terms;
  if (dim.value_ == 0) return {};
  return {Term{dim.value_, {}, {}}};
}

Dim Dim::symbol(std::string_view name) {
  return DimBuilder::factor(FactorKind::kSymbol, printable(name), Dim(0), Dim(0));
}

int64_t Dim::constant() const {
  RANNC_CHECK(is_constant()) << "dimension " << str() << " is symbolic";
  return value_;
}

bool Dim::is_symbol() const {
  return expr_ && expr_->terms.size() == 1 && expr_->terms[0].scale == 1 && expr_->terms[0].factors.size() == 1 &&
         expr_->terms[0].factors[0].kind == FactorKind::kSymbol;
}

const std::string& Dim::symbol_name() const {
  RANNC_CHECK(is_symbol()) << str() << " is not a symbol";
  return expr_->terms[0].factors[0].text;
}

std::string Dim::str() const { return expr_ ? expr_->text : std::to_string(value_); }

size_t Dim::expr_hash() const { return std::hash<std::string>()(expr_->text); }

Result<Dim> Dim::parse(std::string_view text) { return parse_dim(text); }

std::optional<int64_t> Dim::evaluate(const Bindings& bindings) const {
  if (!expr_) return value_;
  int64_t sum = 0;
  for (const Term& term : expr_->terms) {
    int64_t product = term.scale;
    for (const Factor& factor : term.factors) {
      std::optional<int64_t> value;
      if (factor.kind == FactorKind::kSymbol) {
        const auto found = bindings.find(factor.text);
        if (found != bindings.end()) value = found->second;
      } else {
        const auto a = factor.a.evaluate(bindings), b = factor.b.evaluate(bindings);
        if (a && b) value = apply(factor.kind, *a, *b);
      }
      if (!value || __builtin_mul_overflow(product, *value, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

Dim Dim::substitute(std::string_view symbol, const Dim& by) const {
  if (!uses(symbol)) return *this;
  Dim sum = 0;
  for (const Term& term : expr_->terms) {
    Dim product = term.scale;
    for (const Factor& factor : term.factors) {
      if (factor.kind == FactorKind::kSymbol) {
        product = product * (factor.text == symbol ? by : Dim::symbol(factor.text));
      } else {
        product = product *
                  DimBuilder::rebuild(factor.kind, factor.a.substitute(symbol, by), factor.b.substitute(symbol, by));
      }
    }
    sum = sum + product;
  }
  return sum;
}

void Dim::collect_symbols(std::set<std::string>& into) const {
  if (!expr_) return;
  for (const Term& term : expr_->terms) {
    for (const Factor& factor : term.factors) {
      if (factor.kind == FactorKind::kSymbol) {
        into.insert(factor.text);
      } else {
        factor.a.collect_symbols(into);
        factor.b.collect_symbols(into);
      }
    }
  }
}

bool Dim::uses(std::string_view symbol) const {
  if (!expr_) return false;
  for (const Term& term : expr_->terms) {
    for (const Factor& factor : term.factors) {
      const bool found =
          factor.kind == FactorKind::kSymbol ? factor.text == symbol : factor.a.uses(symbol) || factor.b.uses(symbol);
      if (found) return true;
    }
  }
  return false;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return saturating_add(a.value_, b.value_);
  std::vector<Term> terms = DimBuilder::terms_of(a);
  for (Term& term : DimBuilder::terms_of(b)) terms.push_back(std::move(term));
  return DimBuilder::make(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return saturating_mul(a.value_, b.value_);
  const std::vector<Term> left = DimBuilder::terms_of(a), right = DimBuilder::terms_of(b);
  if (left.size() * right.size() > kMaxTerms) return kOverflow;
  return DimBuilder::make(multiply(left, right));
}

namespace {

// Divides a term by another one; nothing if a factor is missing or the numbers do not divide.
std::optional<Term> divided(Term term, const Term& by) {
  if (by.scale == -1) {  // INT64_MIN / -1 is no integer
    term.scale = saturating_mul(term.scale, -1);
  } else if (term.scale % by.scale != 0) {
    return std::nullopt;
  } else {
    term.scale /= by.scale;
  }
  for (const Factor& factor : by.factors) {
    const auto found = std::find_if(term.factors.begin(), term.factors.end(),
                                    [&](const Factor& other) { return other.text == factor.text; });
    if (found == term.factors.end()) return std::nullopt;
    term.factors.erase(found);
  }
  term.key = key_of(term.factors);
  return term;
}

// The order of polynomials: the product of more factors is larger, then the one whose first different factor has the
// smaller text. A product with any factor keeps the order.
bool precedes(const Term& a, const Term& b) {
  if (a.factors.size() != b.factors.size()) return a.factors.size() < b.factors.size();
  for (size_t i = 0; i < a.factors.size(); ++i) {
    if (a.factors[i].text != b.factors[i].text) return a.factors[i].text > b.factors[i].text;
  }
  return false;
}

}  // namespace

// Of a sum, by long division: the largest term of what is left gives the next term of the quotient.
std::optional<Dim> exact_div(const Dim& a, const Dim& b) {
  if (b == Dim(0)) return std::nullopt;
  if (a == b) return Dim(1);
  if (b == Dim(1)) return a;
  const std::vector<Term> divisor = DimBuilder::terms_of(b);
  std::vector<Term> left = DimBuilder::terms_of(a), quotient;
  for (size_t i = 0; divisor.size() == 1 && i < left.size(); ++i) {
    auto next = divided(std::move(left[i]), divisor[0]);
    if (!next) return std::nullopt;
    quotient.push_back(*std::move(next));
  }
  if (divisor.size() == 1) return DimBuilder::make(std::move(quotient));
  const Term& largest = *std::max_element(divisor.begin(), divisor.end(), precedes);
  while (!left.empty()) {
    const auto next = divided(*std::max_element(left.begin(), left.end(), precedes), largest);
    if (!next || quotient.size() == kMaxQuotient) return std::nullopt;
    quotient.push_back(*next);
    for (Term& term : multiply(divisor, {*next})) {
      term.scale = saturating_mul(term.scale, -1);
      left.push_back(std::move(term));
    }
    left = DimBuilder::terms_of(DimBuilder::make(std::move(left)));
  }
  return DimBuilder::make(std::move(quotient));
}

namespace {
constexpr int64_t kMostRest = int64_t{1} << 40;  // far from sums that have overflowed

// The constant r if a is k * x + r and b is the number k, as in ceil(2 * batch / 2) = floor((2 * batch + 1) / 2).
std::optional<int64_t> rest_beside_multiples(const Dim& a, const Dim& b) {
  if (a.is_constant() || !b.is_constant() || b.constant() < 2) return std::nullopt;
  int64_t rest = 0;
  for (const Term& term : DimBuilder::terms_of(a)) {
    if (term.key.empty()) rest = term.scale;
    if (!term.key.empty() && term.scale % b.constant() != 0) return std::nullopt;
  }
  return std::abs(rest) < kMostRest ? std::optional(rest) : std::nullopt;
}
// The multiple of the number b that a contains in its constant term: -1 in floor((s - 1)/2) = floor((s + 1)/2) - 1.
int64_t whole_part(const Dim& a, const Dim& b) {
  if (a.is_constant() || !b.is_constant() || b.constant() < 2) return 0;
  int64_t rest = 0;
  for (const Term& term : DimBuilder::terms_of(a)) {
    if (term.key.empty()) rest = term.scale;
  }
  return std::abs(rest) < kMostRest ? floor_quotient(rest, b.constant()) : 0;
}
}  // namespace

Dim floor_div(const Dim& a, const Dim& b) {
  if (const auto exact = exact_div(a, b)) return *exact;
  std::set<std::string> symbols;
  b.collect_symbols(symbols);
  for (const std::string& symbol : symbols) {  // sizes, hence positive
    const auto dividend = exact_div(a, Dim::symbol(symbol)), divisor = exact_div(b, Dim::symbol(symbol));
    if (dividend && divisor) return floor_div(*dividend, *divisor);
  }
  if (const auto rest = rest_beside_multiples(a, b)) return *exact_div(a - Dim(*rest), b) + floor_div(Dim(*rest), b);
  if (a.is_constant() && b.is_constant()) {
    if (const auto value = apply(FactorKind::kFloor, a.value_, b.value_)) return *value;
  }
  if (const int64_t whole = whole_part(a, b)) return floor_div(a - Dim(whole) * b, b) + Dim(whole);
  return DimBuilder::factor(FactorKind::kFloor, {}, a, b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (exact_div(a, b)) return 0;
  if (const auto rest = rest_beside_multiples(a, b)) return mod(Dim(*rest), b);
  if (a.is_constant() && b.is_constant()) {
    if (const auto value = apply(FactorKind::kMod, a.value_, b.value_)) return *value;
  }
  if (const int64_t whole = whole_part(a, b)) return mod(a - Dim(whole) * b, b);
  return DimBuilder::factor(FactorKind::kMod, {}, a, b);
}

namespace {
Dim extremum(FactorKind kind, const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return *apply(kind, a.constant(), b.constant());
  const Dim difference = a - b;
  if (difference.is_constant() && difference != Dim(kOverflow))
    return ((difference.constant() > 0) == (kind == FactorKind::kMax)) ? a : b;
  return a.str() < b.str() ? DimBuilder::factor(kind, {}, a, b) : DimBuilder::factor(kind, {}, b, a);
}
}  // namespace

Dim max(const Dim& a, const Dim& b) { return extremum(FactorKind::kMax, a, b); }
Dim min(const Dim& a, const Dim& b) { return extremum(FactorKind::kMin, a, b); }

bool operator==(const Dim& a, const Dim& b) {
  if (a.expr_ == b.expr_) return a.expr_ != nullptr || a.value_ == b.value_;
  return a.expr_ && b.expr_ && a.expr_->text == b.expr_->text;
}

std::string str(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ",") + shape[i].str();
  return text + "]";
}

namespace {

Dim product(const Shape& shape) {
  Dim count = 1;
  for (const Dim& dim : shape) count = count * dim;
  return count;
}

}  // namespace

// Products with symbols are built term by term, those of numbers are not. So the numbers are multiplied first where
// that cannot change what overflows.
Dim element_count(const Shape& shape) {
  int64_t constant = 1;
  const Dim* symbolic = nullptr;
  for (const Dim& dim : shape) {
    if (dim.is_constant()) {
      constant = saturating_mul(constant, dim.constant());
    } else if (symbolic == nullptr) {
      symbolic = &dim;
    } else {
      return product(shape);
    }
  }
  if (constant == kOverflow) return product(shape);
  if (symbolic == nullptr) return constant;
  return constant == 1 ? *symbolic : *symbolic * Dim(constant);
}

}  // namespace rannc::ir
