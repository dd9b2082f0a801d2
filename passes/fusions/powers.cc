// Powers of a few numbers, which LibTorch computes one by one where the exponent is a tensor: products and roots.
// Example: `tests/passes/golden/fuse_powers.rir`.
#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0};

Rewrite power(std::string name, double exponent, const OpInfo& becomes, const std::vector<Capture>& operands) {
  const std::string_view short_name = std::string_view(becomes.name).substr(std::string_view("core.").size());
  return rule(std::move(name), op("pow", any(kX), constant(exponent)), {short_name, operands});
}

}  // namespace

std::vector<Rewrite> powers() {
  return {power("squares", 2, core("mul"), {kX, kX}), power("roots", 0.5, core("sqrt"), {kX}),
          power("inverse roots", -0.5, core("rsqrt"), {kX}), power("inverses", -1, core("reciprocal"), {kX})};
}

}  // namespace rannc::passes::fusion
