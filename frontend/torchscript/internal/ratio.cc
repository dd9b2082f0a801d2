#include "frontend/torchscript/internal/ratio.h"

#include <cmath>
#include <set>
#include <string>

#include "frontend/internal/sizes.h"
#include "ir/dim/dim_bounds.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;

constexpr int64_t kLargestSize = 1 << 16;  ///< products with a factor are tested up to this size

/// Whether doubles represent the number exactly, as they do sizes divided by a power of two.
bool is_binary(const Ratio& x) {
  if (!x.below.is_constant() || x.below.constant() < 1) return false;
  const auto below = static_cast<uint64_t>(x.below.constant());
  return (below & (below - 1)) == 0;
}

Ratio shortened(Dim above, Dim below, bool exact) {
  if (const auto whole = ir::exact_div(above, below)) return {*whole, 1, exact};
  return {std::move(above), std::move(below), exact};
}

/// Whether for every size up to the limit, rounding the double product with `factor` equals rounding the fraction.
bool rounds_alike(double factor, int64_t above, int64_t below) {
  for (int64_t size = 0; size <= kLargestSize; ++size) {
    const double product = static_cast<double>(size) * factor;
    const int64_t whole = size * above / below;
    const bool is_whole = size * above % below == 0;
    if (std::floor(product) != static_cast<double>(whole)) return false;
    if (std::ceil(product) != static_cast<double>(is_whole ? whole : whole + 1)) return false;
  }
  return true;
}

bool is_positive(const Dim& x) { return ir::sign(x) == 1; }

}  // namespace

std::optional<Ratio> ratio_of(double number) {
  constexpr double kFar = 1 << 20;
  if (number == 0) return Ratio{0};
  if (!(std::abs(number) * kFar >= 1 && std::abs(number) <= kFar)) return std::nullopt;
  const Fraction fraction = simplest_fraction(std::abs(number));
  const Ratio found{number < 0 ? -fraction.above : fraction.above, fraction.below};
  return Ratio{found.above, found.below, is_binary(found) && fraction.value() == std::abs(number)};
}

std::optional<Ratio> sum(const Ratio& a, const Ratio& b) {
  const bool exact = a.exact && b.exact && (is_binary(a) || is_binary(b));
  if (a.below == b.below) return shortened(a.above + b.above, a.below, exact);
  return shortened(a.above * b.below + b.above * a.below, a.below * b.below, exact);
}

std::optional<Ratio> difference(const Ratio& a, const Ratio& b) { return sum(a, {Dim(0) - b.above, b.below, b.exact}); }

std::optional<Ratio> product(const Ratio& a, const Ratio& b) {
  const bool exact = a.exact && b.exact && is_binary(a) && is_binary(b);
  return shortened(a.above * b.above, a.below * b.below, exact);
}

std::optional<Ratio> quotient(const Ratio& a, const Ratio& b) {
  if (!is_positive(b.above)) return std::nullopt;
  const bool is_one_division = a.below == Dim(1) && b.below == Dim(1);
  const bool is_shift = is_binary(a) && is_binary({1, b.above});
  const bool exact = a.exact && b.exact && (is_one_division || (is_shift && is_binary(b)));
  return shortened(a.above * b.below, a.below * b.above, exact);
}

std::optional<Ratio> scaled(const Dim& size, double factor) {
  const auto by = ratio_of(factor);
  if (!by) return std::nullopt;
  auto made = product({size}, *by);
  if (made && !made->exact && factor > 0)
    made->exact = rounds_alike(factor, by->above.constant(), by->below.constant());
  return made;
}

std::optional<Dim> root(const Dim& x) {
  Dim rest = x, made = 1;
  std::set<std::string> symbols;
  x.collect_symbols(symbols);
  for (const std::string& name : symbols) {
    const Dim symbol = Dim::symbol(name);
    while (const auto less = ir::exact_div(rest, symbol * symbol)) {
      rest = *less;
      made = made * symbol;
    }
  }
  if (!rest.is_constant() || rest.constant() < 0) return std::nullopt;
  const auto whole = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(rest.constant()))));
  int64_t square = 0;
  const bool is_square = !__builtin_mul_overflow(whole, whole, &square) && square == rest.constant();
  return is_square ? std::optional(made * Dim(whole)) : std::nullopt;
}

std::optional<Dim> rounded_down(const Ratio& x) {
  if (!x.exact || !is_positive(x.below)) return std::nullopt;
  return floor_div(x.above, x.below);
}

std::optional<Dim> rounded_up(const Ratio& x) {
  if (!x.exact || !is_positive(x.below)) return std::nullopt;
  return floor_div(x.above + x.below - Dim(1), x.below);
}

std::optional<Dim> cut(const Ratio& x) {
  if (x.below == Dim(1) && x.exact) return x.above;
  return ir::never_negative(x.above) ? rounded_down(x) : std::nullopt;
}

std::optional<Dim> rounded(const Ratio& x) {
  if (x.below == Dim(1)) return cut(x);
  const bool has_halves = !x.below.is_constant() || x.below.constant() % 2 == 0;
  if (has_halves || !x.exact) return std::nullopt;
  return floor_div(x.above * Dim(2) + x.below, x.below * Dim(2));
}

}  // namespace rannc::frontend::torchscript
