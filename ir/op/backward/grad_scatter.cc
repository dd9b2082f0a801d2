// Backward operators of operators that write elements by position.
#include "ir/op/backward/grad_rules.h"
#include "ir/op/rules/picks.h"

namespace rannc::ir::ops {
namespace {

using aten::Operand;
using aten::Scalar;
using Kind = AttributeKind;

Result<Types> infer_elements(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  if (shape.size() != indices.size()) return error("ranks differ: " + str(shape) + " and " + str(indices));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  return gradient_type(call, 0);
}

Result<Types> infer_nd(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  RANNC_TRY(gathered_nd(call, shape, indices, 0));
  return gradient_type(call, 0);
}

Result<aten::Lowering> lower_elements(const LowerCall& call) {
  const Shape& shape = shape_of(*call.inputs[0]);
  const size_t axis = counted_axis(call.attributes, shape.size());
  Calls calls;
  const aten::Value index = from_start(calls, Operand{1}, call.inputs[1]->dtype, shape[axis]);
  return std::move(calls).with({calls("aten::scatter.value", {Operand{0}, axis, index, Scalar{Dim(0)}})});
}

Result<aten::Lowering> lower_nd(const LowerCall& call) {
  const Shape& shape = shape_of(*call.inputs[0]);
  Calls calls;
  RANNC_ASSIGN(const FlatPicks flat, flat_picks(calls, call, shape));
  const aten::Value rows = calls("aten::reshape", {Operand{0}, Shape{flat.parts.picked, flat.parts.rest}});
  const aten::Value made = calls("aten::index_fill.int_Scalar", {rows, 0, flat.index, Scalar{Dim(0)}});
  return std::move(calls).with({calls("aten::reshape", {made, shape})});
}

}  // namespace

std::vector<OpInfo> grad_scatter_ops() {
  const OperandInfo indices{"indices", Role::kIndex};
  return {by_rule(gradient_row("scatter_elements", "gy with zeros where scatter_elements writes", {indices},
                               infer_elements, elementwise_work<0>),
                  lower_elements, {"aten::scatter"}, {{"axis", Kind::kInteger, Dim(0)}}),
          by_rule(gradient_row("scatter_nd", "gy with zeros where scatter_nd writes", {indices}, infer_nd,
                               elementwise_work<0>),
                  lower_nd, {"aten::index_fill"})};
}

}  // namespace rannc::ir::ops
