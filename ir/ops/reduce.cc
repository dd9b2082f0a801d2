// Operators that fold values along axes.
#include <algorithm>

#include "ir/ops/fold.h"
#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

// --- type rule

Result<std::vector<int64_t>> reduced_axes(const Attributes& attributes, size_t rank) {
  if (attributes.has("axes")) return checked_axes(attributes.integers("axes"), rank);
  std::vector<int64_t> all(rank);
  for (size_t i = 0; i < rank; ++i) all[i] = static_cast<int64_t>(i);
  return all;
}

// The operand's type with `axes` (sorted) folded away. A sum or mean over the samples has none: a loss may contain one
// until open-loss has taken it apart; infer-shapes refuses what is left.
ValueType reduced(const OpCall& call, DType dtype, const std::vector<int64_t>& axes, bool keepdim) {
  const Shape& from = *call.in(0).shape;
  Shape to;
  BatchLayout layout = call.in(0).batch;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool folded = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    const bool samples = static_cast<int32_t>(i) == call.in(0).batch.axis;
    if (samples) layout.axis = static_cast<int32_t>(to.size());
    if (samples && folded) layout = {};
    if (!folded) to.push_back(from[i]);
    if (folded && keepdim) to.push_back(1);
  }
  return make_type(dtype, std::move(to), std::move(layout));
}

std::optional<Contents> folded(const OpCall& call) {
  const auto& values = call.in(0).contents;
  if (!values || call.in(0).shape->size() != 1) return std::nullopt;
  const std::string_view name = short_name(call.op);
  if (values->empty() && name != "sum" && name != "prod") return std::nullopt;
  Dim out = name == "sum" ? Dim(0) : name == "prod" ? Dim(1) : (*values)[0];
  for (const Dim& value : *values) {
    if (name == "sum") {
      out = plus(out, value);
    } else if (name == "prod") {
      out = times(out, value);
    } else {
      out = name == "amax" ? max(out, value) : min(out, value);
    }
  }
  return Contents{out};
}

Result<Types> infer_reduce(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const std::vector<int64_t> axes, reduced_axes(call.attributes, from.size()));
  const bool additive = short_name(call.op) == "sum" || short_name(call.op) == "mean";
  for (const int64_t axis : axes) {
    if (!additive) RANNC_TRY(keep_samples_apart(call, 0, axis));
  }
  if (call.in(0).dtype == DType::kBool) return error("operand 0 is bool; it must be a number");
  const bool mean = short_name(call.op) == "mean";
  if (mean && !is_float(call.in(0).dtype)) return error("mean of integers");
  ValueType type = reduced(call, call.in(0).dtype, axes, call.attributes.flag("keepdim"));
  if (!mean) set_contents(type, folded(call));
  return Types{std::move(type)};
}

Result<Types> infer_argmax(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), from.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  return Types{reduced(call, DType::kI64, {axis}, call.attributes.flag("keepdim"))};
}

Result<Types> infer_softmax(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis", -1), from.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  if (!is_float(call.in(0).dtype)) return error(std::string(short_name(call.op)) + " of integers");
  return Types{make_type(call.in(0).dtype, from, call.in(0).batch)};
}

// --- work

Work reduce_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) : Dim(0), call, outputs);
}

// Maximum, difference, exponential (counted as 10), sum, quotient.
Work softmax_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(14) : Dim(0), call, outputs);
}

// --- lowering

// The axes as ATen wants them; without any the operand stays, as the type rule says.
Result<aten::Lowering> lower_reduce(const LowerCall& call) {
  const std::string name(short_name(call.op));
  RANNC_ASSIGN(const std::vector<int64_t> axes, reduced_axes(call.attributes, shape_of(*call.inputs[0]).size()));
  if (axes.empty()) return passed_on();
  const bool keepdim = call.attributes.flag("keepdim");
  if (name == "amax" || name == "amin") return one_call("aten::" + name, {aten::Operand{0}, axes, keepdim});
  const aten::Argument dtype("dtype", call.outputs[0]->dtype);
  if (name != "prod") return one_call("aten::" + name + (name == "sum" ? ".dim_IntList" : ".dim"), {aten::Operand{0}, axes, keepdim, dtype});
  Calls calls;
  aten::Value value = aten::Operand{0};
  for (size_t i = axes.size(); i-- > 0;) value = calls("aten::prod.dim_int", {value, axes[i], keepdim, dtype});
  return std::move(calls).with({value});
}

OpInfo row(std::string_view name, std::vector<std::string> attributes, InferRule infer, WorkRule work) {
  return {.name = "core." + std::string(name),
          .min_inputs = 1,
          .max_inputs = 1,
          .attributes = std::move(attributes),
          .infer = infer,
          .work = work};
}

}  // namespace

std::vector<OpInfo> reduce_ops() {
  std::vector<OpInfo> table;
  using Folds = std::vector<std::pair<std::string_view, FoldRule>>;
  for (const auto& [name, rule] : Folds{
           {"sum", fold::sum}, {"mean", nullptr}, {"amax", fold::amax}, {"amin", fold::amin}, {"prod", fold::prod}}) {
    table.push_back(row(name, {"axes", "keepdim"}, infer_reduce, reduce_work));
    table.back().lower = lower_reduce;
    table.back().fold = rule;
  }
  table.push_back(row("argmax", {"axis", "keepdim"}, infer_argmax, reduce_work));
  table.back().fold = fold::argmax;
  table.back().form = form("aten::argmax", 1, {{"", aten::FromAttribute{"axis", Dim(0)}}, {"", aten::FromAttribute{"keepdim", false}}});
  for (const std::string name : {"softmax", "log_softmax"}) {
    table.push_back(row(name, {"axis"}, infer_softmax, softmax_work));
    table.back().form = form("aten::" + name + ".int", 1, {{"", aten::FromAttribute{"axis", Dim(-1)}}});
  }
  return table;
}

}  // namespace rannc::ir::ops
