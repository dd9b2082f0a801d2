// Bounds of symbolic expressions, by interval arithmetic over sums of products.
//
// 1. An expression is a sum of products of factors, each of which lies in an interval: a symbol in [1, inf), a floor
//    division, modulo, maximum or minimum in the interval that follows from its operands.
// 2. The sum of the products' intervals is a bound. So is the sum after expanding it in x - low(x) for each factor x,
//    which preserves correlations that step 1 loses: s*t - s is (s-1)*(t-1) + (t-1).
// 3. A factor that is the only one of its term is replaced by its own bounds: max(a, b) is a or b, and at least both;
//    c*floor(a/c) lies in a-c+1 … a; mod(a, b) is at most b-1 and, for non-negative a, at most a.
//
// The tightest bound wins. The number of visited sums is limited, and bounds not found within the limit are unbounded.
// So are numbers beyond 2^62, which may be saturated.
#include "ir/dim/dim_bounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "ir/dim/internal/dim_expr.h"

namespace rannc::ir {

namespace {

__extension__ typedef __int128 Wide;

constexpr Wide kInfinity = Wide{1} << 100;
constexpr int64_t kMostScale = int64_t{1} << 62;
constexpr size_t kMostProducts = 256, kMostFactors = 8;
constexpr int kMostSums = 1000, kMostDepth = 8;

// --- intervals; an end at or beyond kInfinity is unbounded

struct Interval {
  Wide low = -kInfinity, high = kInfinity;
};

Wide clamped(Wide value) { return std::clamp(value, -kInfinity, kInfinity); }

Wide product(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  Wide out = 0;
  const bool far = a <= -kInfinity || a >= kInfinity || b <= -kInfinity || b >= kInfinity;
  if (far || __builtin_mul_overflow(a, b, &out)) return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
  return clamped(out);
}

Interval operator*(const Interval& a, const Interval& b) {
  const Wide ends[] = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low), product(a.high, b.high)};
  return {*std::min_element(std::begin(ends), std::end(ends)), *std::max_element(std::begin(ends), std::end(ends))};
}

Wide lower_sum(Wide a, Wide b) { return a <= -kInfinity || b <= -kInfinity ? -kInfinity : clamped(a + b); }

Wide wide_floor_quotient(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
// Quotient of an end and a positive number.
Wide quotient(Wide a, Wide b) {
  if (b >= kInfinity) return a < 0 ? -1 : 0;
  return a <= -kInfinity || a >= kInfinity ? a : wide_floor_quotient(a, b);
}

// --- sums of products

struct Product {
  Wide scale = 0;
  std::vector<Factor> factors;  // sorted by text
};

class Sum {
 public:
  static Sum of(const Dim& dim) {
    Sum sum;
    for (const Term& term : DimBuilder::terms_of(dim)) {
      if (term.scale >= kMostScale || term.scale <= -kMostScale) sum.exact_ = false;
      sum.add(term.scale, term.factors);
    }
    return sum;
  }

  void add(Wide scale, std::vector<Factor> factors) {
    std::sort(factors.begin(), factors.end(), [](const Factor& a, const Factor& b) { return a.text < b.text; });
    std::string key;
    for (const Factor& factor : factors) key += factor.text + "*";
    const auto [at, fresh] = products_.try_emplace(std::move(key));
    if (fresh) at->second.factors = std::move(factors);
    at->second.scale += scale;
    if (at->second.scale == 0) products_.erase(at);
    check(scale);
  }

  void add(const Sum& other, Wide scale) {
    exact_ = exact_ && other.exact_;
    for (const auto& [key, entry] : other.products_) add(scaled(scale, entry.scale), entry.factors);
  }

  Sum times(Wide scale) const {
    Sum sum;
    sum.add(*this, scale);
    return sum;
  }

  // The sum with a factor replaced by another sum.
  Sum with(const std::string& factor, const Sum& by) const {
    Sum sum;
    sum.exact_ = exact_;
    for (const auto& [key, entry] : products_) {
      Sum expanded;
      Product rest{entry.scale, {}};
      size_t power = 0;
      for (const Factor& other : entry.factors) {
        if (other.text == factor) {
          ++power;
        } else {
          rest.factors.push_back(other);
        }
      }
      expanded.add(rest.scale, rest.factors);
      for (; power > 0 && expanded.exact_; --power) expanded = expanded.multiplied(by);
      sum.add(expanded, 1);
    }
    return sum;
  }

  // False if there were too many numbers or products; nothing is then known about the sum.
  bool exact() const { return exact_; }
  const std::map<std::string, Product>& products() const { return products_; }

 private:
  Wide scaled(Wide a, Wide b) {
    const Wide out = product(a, b);
    check(out);
    return out;
  }
  void check(Wide scale) {
    constexpr Wide kMost = Wide{1} << 90;
    if (scale >= kMost || scale <= -kMost || products_.size() > kMostProducts) exact_ = false;
  }
  Sum multiplied(const Sum& by) const {
    Sum sum;
    sum.exact_ = exact_ && by.exact_ && products_.size() * by.products_.size() <= kMostProducts;
    if (!sum.exact_) return sum;
    for (const auto& [key, x] : products_) {
      for (const auto& [other, y] : by.products_) {
        std::vector<Factor> factors = x.factors;
        factors.insert(factors.end(), y.factors.begin(), y.factors.end());
        sum.add(sum.scaled(x.scale, y.scale), std::move(factors));
      }
    }
    return sum;
  }

  std::map<std::string, Product> products_;
  bool exact_ = true;
};

Sum number(Wide value) {
  Sum sum;
  sum.add(value, {});
  return sum;
}

// --- bounds

class Prover {
 public:
  // A lower bound of the sum.
  Wide least(const Sum& sum, int depth) {
    if (!sum.exact() || ++looked_at_ > kMostSums) return -kInfinity;
    const Factors factors = factors_of(sum, depth);
    Wide best = std::max(term_by_term(sum, factors), from_lowest(sum, factors));
    if (depth == 0) return best;
    for (const auto& [text, known] : factors) {
      if (const auto found = without(sum, *known.factor, depth - 1)) return std::max(best, *found);
    }
    return best;
  }

  Interval interval(const Dim& dim, int depth) {
    const Sum sum = Sum::of(dim);
    return {least(sum, depth), -least(sum.times(-1), depth)};
  }

 private:
  struct Known {
    const Factor* factor;
    Interval interval;
  };
  using Factors = std::map<std::string_view, Known>;

  Factors factors_of(const Sum& sum, int depth) {
    Factors found;
    for (const auto& [key, entry] : sum.products()) {
      for (const Factor& factor : entry.factors) {
        if (!found.contains(factor.text)) found.emplace(factor.text, Known{&factor, interval(factor, depth)});
      }
    }
    return found;
  }

  Interval interval(const Factor& factor, int depth) {
    if (factor.kind == FactorKind::kSymbol) return {1, kInfinity};
    if (depth == 0) return {};
    const Interval a = interval(factor.a, depth - 1), b = interval(factor.b, depth - 1);
    switch (factor.kind) {
      case FactorKind::kMax:
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      case FactorKind::kMin:
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      case FactorKind::kFloor:
        if (b.low < 1) return {};
        return {quotient(a.low, a.low < 0 ? b.low : b.high), quotient(a.high, a.high < 0 ? b.high : b.low)};
      default:
        if (b.low < 1) return {};
        if (a.low >= 0 && a.high < b.low) return a;
        return {0, std::min(b.high >= kInfinity ? kInfinity : b.high - 1, a.low >= 0 ? a.high : kInfinity)};
    }
  }

  static Wide term_by_term(const Sum& sum, const Factors& factors) {
    Wide low = 0;
    for (const auto& [key, entry] : sum.products()) {
      Interval value{entry.scale, entry.scale};
      for (const Factor& factor : entry.factors) value = value * factors.at(factor.text).interval;
      low = lower_sum(low, value.low);
    }
    return low;
  }

  // Substitutes low + y with y >= 0 for each factor x that has a lowest value, and expands the products.
  static Wide from_lowest(const Sum& sum, const Factors& factors) {
    std::map<std::vector<std::string_view>, Wide> shifted;
    for (const auto& [key, entry] : sum.products()) {
      if (entry.factors.size() > kMostFactors) return -kInfinity;
      for (size_t chosen = 0; chosen < size_t{1} << entry.factors.size(); ++chosen) {
        Wide scale = entry.scale;
        std::vector<std::string_view> rest;
        for (size_t i = 0; i < entry.factors.size(); ++i) {
          const Wide low = factors.at(entry.factors[i].text).interval.low;
          if (chosen >> i & 1) {
            rest.push_back(entry.factors[i].text);
          } else {
            scale = product(scale, low <= -kInfinity ? 0 : low);
          }
        }
        if (scale <= -kInfinity || scale >= kInfinity) return -kInfinity;
        if (scale != 0) shifted[rest] += scale;
      }
    }
    Wide low = 0;
    for (const auto& [names, scale] : shifted) {
      Interval value{scale, scale};
      for (const std::string_view name : names) {
        const Interval& known = factors.at(name).interval;
        const bool has_lowest = known.low > -kInfinity;
        const Wide width = known.high >= kInfinity ? kInfinity : clamped(known.high - known.low);
        value = value * (has_lowest ? Interval{0, width} : known);
      }
      low = lower_sum(low, value.low);
    }
    return low;
  }

  // A bound of the sum with a factor replaced by its own bounds; nothing if it has none.
  std::optional<Wide> without(const Sum& sum, const Factor& factor, int depth) {
    const std::optional<Wide> scale = scale_alone(sum, factor.text);
    switch (factor.kind) {
      case FactorKind::kSymbol:
        return std::nullopt;
      case FactorKind::kFloor:
        return scale ? without_floor(sum, factor, *scale, depth) : std::nullopt;
      case FactorKind::kMod:
        return scale && *scale < 0 ? without_mod(sum, factor, depth) : std::nullopt;
      default: {
        const Wide a = least(sum.with(factor.text, Sum::of(factor.a)), depth);
        const Wide b = least(sum.with(factor.text, Sum::of(factor.b)), depth);
        const bool beyond_both = scale && (*scale > 0) == (factor.kind == FactorKind::kMax);
        return beyond_both ? std::max(a, b) : std::min(a, b);
      }
    }
  }

  // The scale of a factor that occurs in exactly one product and is its only factor.
  static std::optional<Wide> scale_alone(const Sum& sum, const std::string& text) {
    std::optional<Wide> scale;
    for (const auto& [key, entry] : sum.products()) {
      const auto has = [&](const Factor& other) { return other.text == text; };
      if (std::none_of(entry.factors.begin(), entry.factors.end(), has)) continue;
      if (scale || entry.factors.size() != 1) return std::nullopt;
      scale = entry.scale;
    }
    return scale;
  }

  std::optional<Wide> without_floor(const Sum& sum, const Factor& factor, Wide scale, int depth) {
    if (!factor.b.is_constant() || factor.b.constant() < 2 || factor.b.constant() >= kMostScale) return std::nullopt;
    const Wide divisor = factor.b.constant();
    Sum multiple = sum.with(factor.text, number(0)).times(divisor);
    multiple.add(Sum::of(factor.a), scale);
    if (scale > 0) multiple.add(number(1 - divisor), scale);
    const Wide low = least(multiple, depth);
    return low <= -kInfinity ? -kInfinity : -wide_floor_quotient(-low, divisor);
  }

  std::optional<Wide> without_mod(const Sum& sum, const Factor& factor, int depth) {
    if (interval(factor.b, depth).low < 1) return std::nullopt;
    const Wide below = least(sum.with(factor.text, Sum::of(factor.b - Dim(1))), depth);
    if (interval(factor.a, depth).low < 0) return below;
    return std::max(below, least(sum.with(factor.text, Sum::of(factor.a)), depth));
  }

  int looked_at_ = 0;
};

std::optional<int64_t> finite(Wide end) {
  if (end > INT64_MAX || end < INT64_MIN) return std::nullopt;
  return static_cast<int64_t>(end);
}

int sign_of(int64_t value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

// The greatest common divisor of `divisor` and all coefficients of an expression.
int64_t divisor_of(const Dim& dim, int64_t divisor) {
  for (const Term& term : DimBuilder::terms_of(dim)) {
    if (term.scale > -kMostScale) divisor = std::gcd(divisor, term.scale);
  }
  return divisor;
}

}  // namespace

Bounds bounds_of(const Dim& dim) {
  if (dim.is_constant()) return {dim.constant(), dim.constant()};
  const Interval found = Prover().interval(dim, kMostDepth);
  return {finite(found.low), finite(found.high)};
}

std::optional<int> sign(const Dim& dim) {
  if (dim.is_constant()) return sign_of(dim.constant());
  if (dim.is_symbol()) return 1;
  const Bounds bounds = bounds_of(dim);
  if (bounds.low && *bounds.low > 0) return 1;
  if (bounds.high && *bounds.high < 0) return -1;
  if (bounds.low == 0 && bounds.high == 0) return 0;
  return std::nullopt;
}

bool never_positive(const Dim& dim) {
  const Bounds bounds = bounds_of(dim);
  return bounds.high && *bounds.high <= 0;
}

bool never_negative(const Dim& dim) {
  const Bounds bounds = bounds_of(dim);
  return bounds.low && *bounds.low >= 0;
}

Dim larger(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return max(a, b);  // their difference may not be one
  if (never_negative(a - b)) return a;
  return never_positive(a - b) ? b : max(a, b);
}

Dim smaller(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return min(a, b);
  if (never_positive(a - b)) return a;
  return never_negative(a - b) ? b : min(a, b);
}

std::optional<bool> certainly_equal(const Dim& a, const Dim& b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  const auto difference = sign(a - b);
  if (!difference) return std::nullopt;
  return *difference == 0;
}

std::pair<Dim, Dim> reduced_equality(const Dim& a, const Dim& b) {
  std::pair<Dim, Dim> sides{a, b};
  const auto divide = [&](const Dim& by) {
    const auto left = exact_div(sides.first, by), right = exact_div(sides.second, by);
    if (left && right) sides = {*left, *right};
    return left && right;
  };
  std::set<std::string> symbols;
  a.collect_symbols(symbols);
  for (const std::string& symbol : symbols) {
    while (sides.first.uses(symbol) && divide(Dim::symbol(symbol))) continue;
  }
  const int64_t number = divisor_of(sides.second, divisor_of(sides.first, 0));
  if (number > 1) divide(Dim(number));
  if (sides.second.str() < sides.first.str()) std::swap(sides.first, sides.second);
  return sides;
}

}  // namespace rannc::ir
