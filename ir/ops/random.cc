// Operators that draw random numbers.
#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

Result<Types> infer_random(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  const double ratio = call.attributes.number("ratio");
  if (!(ratio >= 0 && ratio < 1)) return error("ratio " + number(ratio) + " is outside of [0, 1)");
  if (!is_float(call.in(0).dtype)) return error("dropout of integers");
  return Types{make_type(call.in(0).dtype, shape, call.in(0).batch)};
}

// The mask, where there is one.
TapeUse dropout_tape(const TapeCall& call) {
  if (!(OpAttributes(call.op, call.attributes).number("ratio") > 0)) return {};
  return {.own_bytes = element_count(shape_of(*call.outputs[0])) * Dim(byte_size(call.outputs[0]->dtype))};
}

}  // namespace

std::vector<OpInfo> random_ops() {
  // Draws belong to the runtime, keyed by seed, step, task and sample, so that they are the same in every plan: there
  // is nothing to lower.
  return {
      {.name = "core.dropout",
       .says = "x with a share of its elements 0 and the others larger; has no statement of its own",
       .onnx = {"Dropout"},
       .operands = {{"x"}},
       .attributes = {{"ratio", AttributeKind::kNumber, 0.5}, {"key", AttributeKind::kInteger}},
       .effect = Effect::kRandom,
       .infer = infer_random,
       .tape = TapeInfo{.rule = dropout_tape}},
  };
}

}  // namespace rannc::ir::ops
