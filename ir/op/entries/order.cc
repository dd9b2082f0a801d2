// Sorting operators.
#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/rules/interval.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {
namespace {

Result<Types> infer_topk(const OpCall& call) {
  RANNC_ASSIGN(Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  const auto* k = std::get_if<Dim>(call.attributes.find("k"));
  if (k == nullptr) return error("k is no integer");
  RANNC_TRY(require_sizes(call, {*k}));
  const bool beyond = k->is_constant() && shape[axis].is_constant() && k->constant() > shape[axis].constant();
  if (beyond) {
    return error("the " + k->str() + " first of axis " + std::to_string(axis) + " of " + str(shape) +
                 ", which has no more than " + shape[axis].str());
  }
  shape[axis] = *k;
  const BatchLayout& layout = call.in(0).batch;
  return Types{make_type(call.in(0).dtype, shape, layout), make_type(DType::kI64, shape, layout)};
}

// The order of equal elements is unspecified for ATen's topk. A stable sort puts the lower index first. Only the
// positions of the first elements of the sorted operand stay in memory.
Result<aten::Lowering> lower_topk(const LowerCall& call) {
  const Shape& to = shape_of(*call.outputs[0]);
  const size_t axis = counted_axis(call.attributes, to.size());
  Calls calls;
  const aten::Made sorted =
      calls("aten::sort.stable",
            {aten::Operand{0}, {"stable", true}, {"dim", axis}, {"descending", call.attributes.flag("largest")}}, 2);
  const auto first = [&](uint32_t result) {
    const aten::Value part = calls("aten::narrow", {aten::Made{sorted.call, result}, axis, 0, to[axis]});
    return calls("aten::clone", {part, {"memory_format", aten::MemoryFormat::kContiguous}});
  };
  const aten::Value places = first(1);
  const bool differentiable = is_float(call.inputs[0]->dtype);
  const aten::Value values =
      differentiable ? aten::Value(calls("aten::gather", {aten::Operand{0}, axis, places})) : aten::Value(first(0));
  return std::move(calls).with({values, places});
}

// Twenty comparisons per element.
Work sort_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(20) : Dim(0), call, outputs);
}

}  // namespace

std::vector<OpInfo> order_ops() {
  using Kind = AttributeKind;
  return {
      {.name = "core.topk",
       .summary =
           "the k largest elements along an axis, or smallest ones, in order, of equal ones those of lower places "
           "first; then their places",
       .onnx = {"TopK"},
       .aten = {"aten::sort", "aten::topk"},
       .operands = {{"x"}},
       .attributes = {{.name = "k", .kind = Kind::kScalar, .required = true},
                      {"axis", Kind::kInteger, Dim(-1)},
                      {"largest", Kind::kFlag, true}},
       .results = {{"result"}, {"places"}},
       .infer = infer_topk,
       .work = sort_work,
       .lower = lower_topk,
       .interval = interval::topk,
       .gradient = gradient::topk,
       .tape = TapeInfo{{kept_operand(0), kept_result(1)}}},
  };
}

}  // namespace rannc::ir::ops
