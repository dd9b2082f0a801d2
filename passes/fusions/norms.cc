// Normalisations over the last axes: layer_norm, rms_norm.
// Examples: `tests/passes/golden/fuse_layer_norm.rir`, `tests/passes/golden/fuse_rms_norm.rir`.
#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kEpsilon{1}, kScale{2}, kBias{3}, kMean{4}, kSquares{5}, kCentred{6};

Pattern mul(const Pattern& a, const Pattern& b) { return commutative(op("mul", a, b)); }
Pattern add(const Pattern& a, const Pattern& b) { return commutative(op("add", a, b)); }

Pattern square(const Pattern& x, const Pattern& again) {
  return either({op("pow", x, constant(2.0)), op("mul", x, again)});
}

/// numerator / sqrt(squares + epsilon).
Pattern over_root(const Pattern& numerator, const Pattern& squares) {
  const Pattern raised = add(squares, constant(kEpsilon)), root = op("sqrt", raised);
  const Pattern inverse = either(
      {op("rsqrt", raised), op("reciprocal", root), op("div", constant(1.0), root), op("pow", raised, constant(-0.5))});
  return either({mul(inverse, numerator), op("div", numerator, either({root, op("pow", raised, constant(0.5))}))});
}

/// Whether all that was found is over the same last axes of x, from which its scale and bias are.
bool over_last_axes(const Match& match) {
  const Graph& graph = match.graph();
  const auto axis = last_axes(match, kSquares, kX);
  if (!axis || !is_float(graph.type(match[kX]).dtype)) return false;
  if (match.has(kMean) && last_axes(match, kMean, kX) != axis) return false;
  for (const Capture place : {kScale, kBias}) {
    if (!match.has(place)) continue;
    if (graph.type(match[place]).dtype != graph.type(match[kX]).dtype) return false;
    if (!has_sizes_from(graph, match[place], match[kX], *axis)) return false;
  }
  return true;
}

Attributes attributes(const Match& match) {
  return {{"axis", Dim(*last_axes(match, kSquares, kX))}, {"epsilon", match.number(kEpsilon)}};
}

Pattern normalises(const Pattern& pattern) { return pattern.where(over_last_axes); }

}  // namespace

std::vector<Rewrite> layer_norm() {
  const Pattern mean = op("mean", any(kX)).as(kMean);
  const Pattern centred = op("sub", any(kX), mean).as(kCentred);
  const Pattern variance = op("mean", square(centred, any(kCentred))).as(kSquares);
  const Pattern normal = over_root(any(kCentred), variance), scaled = mul(normal, any(kScale));
  const Becomes norm{"layer_norm", {kX, kScale, kBias}, attributes};
  return {rule("layer_norm", normalises(add(scaled, any(kBias))), norm),
          rule("layer_norm without bias", normalises(scaled), norm),
          rule("layer_norm without weights", normalises(normal), norm)};
}

std::vector<Rewrite> rms_norm() {
  const Pattern normal = over_root(any(kX), op("mean", square(any(kX), any(kX))).as(kSquares));
  const Becomes norm{"rms_norm", {kX, kScale}, attributes};
  return {rule("rms_norm", normalises(mul(normal, any(kScale))), norm),
          rule("rms_norm without weights", normalises(normal), norm)};
}

}  // namespace rannc::passes::fusion
