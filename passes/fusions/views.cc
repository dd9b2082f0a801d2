// Views that change nothing, and views of views.
// Example: `tests/passes/golden/fuse_views.rir`.
#include <algorithm>

#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kInner{1}, kOuter{2};

bool keeps_order(const Match& match) {
  const std::vector<int64_t> dims = order_of(match.graph(), match.task(kOuter));
  return std::is_sorted(dims.begin(), dims.end());
}

bool keeps_type(const Match& match) {
  const ValueType &made = match.graph().type(match[kOuter]), &own = match.graph().type(match[kX]);
  return made.dtype == own.dtype && made.shape && made.shape == own.shape && made.batch == own.batch;
}

/// Sizes that the task has as an attribute: nothing is read but x.
bool has_outer_shape(const Match& match) { return match.attributes(kOuter).list("shape") != nullptr; }

Attributes shape(const Match& match) { return {{"shape", *match.attributes(kOuter).list("shape")}}; }

Attributes both_orders(const Match& match) {
  Shape dims;
  const std::vector<int64_t> inner = order_of(match.graph(), match.task(kInner));
  for (const int64_t outer : order_of(match.graph(), match.task(kOuter)))
    dims.emplace_back(inner[static_cast<size_t>(outer)]);
  return {{"dims", dims}};
}

std::vector<ValueId> pass_on(const Match&, Builder& make) { return {make[kX]}; }

}  // namespace

std::vector<Rewrite> permutations() {
  const Pattern x = any(kX), permuted = op("permute", op("permute", x).as(kInner)).as(kOuter);
  return {
      {"permutations that keep the order", op("permute", x).as(kOuter).where(keeps_order), pass_on},
      rule("permutations of permutations", permuted, {"permute", {kX}, both_orders}),
  };
}

std::vector<Rewrite> views() {
  const Pattern x = any(kX), reshaped = op("reshape", op("reshape", x)).as(kOuter);
  const Pattern same_type = op_of({"reshape", "expand", "cast", "identity"}, {x}).as(kOuter);
  std::vector<Rewrite> rules = permutations();
  rules.push_back({"views of the same sizes", same_type.where(keeps_type), pass_on});
  rules.push_back(rule("reshapes of reshapes", reshaped.where(has_outer_shape), {"reshape", {kX}, shape}));
  return rules;
}

}  // namespace rannc::passes::fusion
