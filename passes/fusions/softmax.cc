// Exponentials over their sum along one axis: softmax, log_softmax.
// Example: `tests/passes/golden/fuse_softmax.rir`.
#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kMost{1}, kExponential{2}, kSum{3}, kShifted{4};

/// The one axis that a reduction goes over and keeps.
std::optional<int64_t> one_axis(const Match& match, Capture reduced) {
  const OpAttributes attributes(match.graph().op(match.task(reduced)), match.attributes(reduced));
  const auto& shape = match.graph().type(match[kX]).shape;
  const std::vector<int64_t> axes = attributes.integers("axes");
  if (!shape || !attributes.flag("keepdim") || axes.size() != 1) return std::nullopt;
  return from_front(axes[0], shape->size());
}

bool over_one_axis(const Match& match) {
  const auto axis = one_axis(match, kSum);
  return axis && is_float(match.graph().type(match[kX]).dtype) && one_axis(match, kMost) == axis;
}

Attributes attributes(const Match& match) { return {{"axis", Dim(*one_axis(match, kSum))}}; }

Pattern normalises(const Pattern& pattern) { return pattern.where(over_one_axis); }

}  // namespace

std::vector<Rewrite> softmax() {
  const Pattern most = either({op("stop_gradient", op("amax", any(kX)).as(kMost)), op("amax", any(kX)).as(kMost)});
  const Pattern shifted = op("sub", any(kX), most).as(kShifted), exponential = op("exp", shifted).as(kExponential);
  const Pattern sum = op("sum", exponential).as(kSum);
  const Pattern inverse = either({op("reciprocal", sum), op("div", constant(1.0), sum)});
  const Pattern share = either({op("div", any(kExponential), op("sum", exponential).as(kSum)),
                                commutative(op("mul", inverse, any(kExponential)))});
  return {rule("log_softmax", normalises(op("sub", any(kShifted), op("log", sum))), {"log_softmax", {kX}, attributes}),
          rule("softmax", normalises(share), {"softmax", {kX}, attributes})};
}

}  // namespace rannc::passes::fusion
