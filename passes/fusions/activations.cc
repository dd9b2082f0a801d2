// Activations: gelu, silu.
// Examples: `tests/passes/golden/fuse_gelu.rir`, `tests/passes/golden/fuse_silu.rir`.
#include <cmath>

#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX = kGeluX, kRoot{1}, kHalf{2}, kOne{3}, kCubic{4}, kFactor{5}, kHalfAgain{6};

Pattern mul(const Pattern& a, const Pattern& b) { return commutative(op("mul", a, b)); }
Pattern add(const Pattern& a, const Pattern& b) { return commutative(op("add", a, b)); }

/// x * 0.5 * (1 + share), in every order of the factors. `share` has x at its place.
std::vector<Pattern> weighted(const Pattern& share, Near near) {
  const Pattern half = number(kHalf, 0.5, near), x = any(kX);
  const Pattern raised = add(share, number(kOne, 1.0, near));
  return {
      mul(mul(raised, x), half),
      mul(raised, mul(x, half)),
      mul(mul(raised, half), x),
      mul(add(mul(share, half), number(kHalfAgain, 0.5, near)), x),
      mul(raised, op("div", x, number(kHalf, 2.0, near))),
  };
}

Becomes gelu_of(const char* approximate) {
  return {"gelu", {kX}, [approximate](const Match&) { return Attributes{{"approximate", std::string(approximate)}}; }};
}

}  // namespace

std::vector<Pattern> gelu_by_erf(Near near) {
  const Pattern x = any(kX), inverse = number(kRoot, std::sqrt(0.5), near), root = number(kRoot, std::sqrt(2.0), near);
  return weighted(op("erf", either({op("div", x, root), mul(x, inverse)})), near);
}

std::vector<Pattern> gelu_by_tanh(Near near) {
  const Pattern x = any(kX), cubic = number(kCubic, 0.044715, near);
  const Pattern factor = number(kFactor, std::sqrt(2 / M_PI), near);
  const Pattern square = either({mul(x, x), op("pow", x, constant(2.0))});
  const Pattern cube = either({op("pow", x, constant(3.0)), mul(square, x)});
  const Pattern bent = either({
      mul(add(x, either({mul(cube, cubic), mul(mul(x, cubic), square)})), factor),
      mul(mul(x, factor), add(mul(square, cubic), number(kOne, 1.0, near))),
      mul(mul(x, add(mul(square, cubic), number(kOne, 1.0, near))), factor),
  });
  return weighted(op("tanh", bent), near);
}

std::vector<Rewrite> gelu() {
  return {rule("gelu", either(gelu_by_erf(Near::kRounded)), gelu_of("none")),
          rule("gelu by tanh", either(gelu_by_tanh(Near::kRounded)), gelu_of("tanh"))};
}

std::vector<Rewrite> silu() {
  const Pattern x = any(kX);
  return {rule("silu", mul(op("sigmoid", x), x), {"silu", {kX}})};
}

}  // namespace rannc::passes::fusion
