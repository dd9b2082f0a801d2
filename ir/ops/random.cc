// Operators that draw random numbers.
#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

Result<Types> infer_random(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  const double ratio = call.attributes.number("ratio", 0.5);
  if (!(ratio >= 0 && ratio < 1)) return error("ratio " + number(ratio) + " is outside of [0, 1)");
  if (!is_float(call.in(0).dtype)) return error("dropout of integers");
  return Types{make_type(call.in(0).dtype, shape, call.in(0).batch)};
}

}  // namespace

std::vector<OpInfo> random_ops() {
  // Draws belong to the runtime, keyed by seed, step, task and sample, so that they are the same in every plan: there is
  // nothing to lower.
  return {
      {.name = "core.dropout",
       .min_inputs = 1,
       .max_inputs = 1,
       .attributes = {"ratio", "key"},
       .effect = Effect::kRandom,
       .infer = infer_random},
  };
}

}  // namespace rannc::ir::ops
