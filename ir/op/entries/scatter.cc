// Operators that write elements by position.
#include "ir/op/folding/fold.h"
#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/rules/picks.h"

namespace rannc::ir::ops {
namespace {

enum Of : size_t { kX, kIndices, kUpdates };

// --- shared helpers

Diagnostic apart(const OpCall& call) {
  const auto place = [&](size_t operand) {
    const BatchLayout& layout = call.in(operand).batch;
    return layout.has_batch() ? " (samples on axis " + std::to_string(layout.axis) + ")" : " (no samples)";
  };
  return error(std::string(short_name(call.op)) + " writes " + str(*call.in(kUpdates).shape) + place(kUpdates) +
               " by indices " + str(*call.in(kIndices).shape) + place(kIndices) + " into " + str(*call.in(kX).shape) +
               place(kX) + ": a sample must be written into its own place alone");
}

Result<void> require_written(const OpCall& call) {
  RANNC_TRY(require_integers(call, kIndices));
  RANNC_TRY(common_dtype(call, {kX, kUpdates}));
  const std::string reduction = call.attributes.text("reduction");
  if (call.in(kX).dtype != DType::kBool || reduction == "none") return {};
  return error("operand 0 is bool; reduction \"" + reduction + "\" is of numbers");
}

// Fails if `updates` do not have the shape that the indices require.
Result<void> require_updates(const OpCall& call, const Shape& expected) {
  RANNC_ASSIGN(const Shape found, shape_of(call, kUpdates));
  if (taken_for_equal(call, found, expected)) return {};
  return error("updates have shape " + str(found) + " where indices " + str(*call.in(kIndices).shape) + " into " +
               str(*call.in(kX).shape) + " need " + str(expected));
}

// Multiplying by the updates is linear in x.
Linear linear_scatter(const OpCall& call) {
  return call.attributes.text("reduction") == "mul" ? Linear::kFirst : Linear::kNo;
}

std::string reduce_name(const std::string& reduction) { return reduction == "mul" ? "prod" : "a" + reduction; }

// --- scatter_elements

Result<Types> infer_scatter_elements(const OpCall& call) {
  RANNC_ASSIGN(const Shape data, shape_of(call, kX));
  RANNC_ASSIGN(const Shape indices, shape_of(call, kIndices));
  RANNC_TRY(require_written(call));
  if (data.size() != indices.size()) return error("ranks differ: " + str(data) + " and " + str(indices));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), data.size()));
  RANNC_TRY(require_updates(call, indices));
  RANNC_TRY(keep_samples_apart(call, kX, axis));
  RANNC_TRY(keep_samples_apart(call, kIndices, axis));
  for (size_t i = 0; i < data.size(); ++i) {
    const bool beyond = data[i].is_constant() && indices[i].is_constant() && indices[i].constant() > data[i].constant();
    if (static_cast<int64_t>(i) == axis || !beyond) continue;
    return error("indices " + str(indices) + " reach beyond axis " + std::to_string(i) + " of " + str(data));
  }
  const BatchLayout& layout = call.in(kX).batch;
  if (!(call.in(kIndices).batch == layout) || !(call.in(kUpdates).batch == layout)) return apart(call);
  return Types{make_type(call.in(kX).dtype, data, layout)};
}

Result<aten::Lowering> lower_scatter_elements(const LowerCall& call) {
  const Shape& data = shape_of(*call.inputs[kX]);
  const size_t axis = counted_axis(call.attributes, data.size());
  const std::string reduction = call.attributes.text("reduction");
  Calls calls;
  const aten::Value index = from_start(calls, aten::Operand{kIndices}, call.inputs[kIndices]->dtype, data[axis]);
  const aten::Value x = aten::Operand{kX}, updates = aten::Operand{kUpdates};
  if (reduction == "none") return std::move(calls).with({calls("aten::scatter.src", {x, axis, index, updates})});
  if (reduction == "add") return std::move(calls).with({calls("aten::scatter_add", {x, axis, index, updates})});
  const aten::Text how{reduce_name(reduction)};
  return std::move(calls).with({calls("aten::scatter_reduce.two", {x, axis, index, updates, how})});
}

// --- scatter_nd

// Checks the batch layout if the samples are on an axis of x that the tuples do not index: updates have them there too.
Result<void> samples_beside(const OpCall& call, const Shape& indices) {
  const BatchLayout& source = call.in(kX).batch;
  BatchLayout expected = source;
  expected.axis += static_cast<int32_t>(static_cast<int64_t>(indices.size()) - 1 - indices.back().constant());
  if (call.in(kIndices).batch.has_batch() || !(call.in(kUpdates).batch == expected)) return apart(call);
  return {};
}

Result<Types> infer_scatter_nd(const OpCall& call) {
  RANNC_ASSIGN(const Shape data, shape_of(call, kX));
  RANNC_ASSIGN(const Shape indices, shape_of(call, kIndices));
  RANNC_TRY(require_written(call));
  RANNC_ASSIGN(const Shape expected, gathered_nd(call, data, indices, 0));
  RANNC_TRY(require_updates(call, expected));
  RANNC_TRY(keep_samples_apart(call, kIndices, static_cast<int64_t>(indices.size()) - 1));
  const BatchLayout &source = call.in(kX).batch, &places = call.in(kIndices).batch;
  if (!source.has_batch()) {
    if (places.has_batch() || call.in(kUpdates).batch.has_batch()) return apart(call);
  } else if (source.axis >= indices.back().constant()) {
    RANNC_TRY(samples_beside(call, indices));
  } else if (!places.has_batch() || !(call.in(kUpdates).batch == places)) {
    return apart(call);
  }
  return Types{make_type(call.in(kX).dtype, data, source)};
}

// Flattens the index into the picked axes of x viewed as [picked, rest].
Result<aten::Lowering> lower_scatter_nd(const LowerCall& call) {
  const Shape& data = shape_of(*call.inputs[kX]);
  const std::string reduction = call.attributes.text("reduction");
  Calls calls;
  RANNC_ASSIGN(const FlatPicks flat, flat_picks(calls, call, data));
  const auto& [groups, picked, rest, rows] = flat.parts;
  const aten::Value table = calls("aten::reshape", {aten::Operand{kX}, Shape{picked, rest}});
  const aten::Value updates = calls("aten::reshape", {aten::Operand{kUpdates}, Shape{rows, rest}});
  std::vector<aten::Argument> arguments = {table, 0, flat.index, updates};
  std::string schema = reduction == "none" ? "aten::index_copy" : "aten::index_add";
  if (reduction != "none" && reduction != "add") {
    schema = "aten::index_reduce";
    arguments.emplace_back(aten::Text{reduce_name(reduction)});
  }
  const aten::Value made = calls(std::move(schema), std::move(arguments));
  return std::move(calls).with({calls("aten::reshape", {made, data})});
}

std::optional<int64_t> scatter_nd_picks(const OpCall& call, int64_t axis) {
  return axis < call.in(kIndices).shape->back().constant() ? std::optional(axis) : std::nullopt;
}

// --- tape: indices are kept as i64; extremes and products keep all operands and results

// `places`: number of index elements.
TapeUse scatter_tape(const TapeCall& call, const Dim& places) {
  constexpr int64_t kIndexBytes = 8;
  const std::string reduction = OpAttributes(call.op, call.attributes).text("reduction");
  TapeUse use{.own_bytes = places * Dim(kIndexBytes)};
  if (reduction == "add") return call.wants(kUpdates) ? use : TapeUse{};
  if (reduction != "none") use.keeps = {kept_operand(kX), kept_operand(kUpdates), kept_result()};
  return use;
}

TapeUse scatter_elements_tape(const TapeCall& call) {
  return scatter_tape(call, element_count(shape_of(*call.inputs[kIndices])));
}

// Keeps one flat index per tuple. For sums and copies ATen also keeps the updates, although it reads only their shape.
TapeUse scatter_nd_tape(const TapeCall& call) {
  const Shape& indices = shape_of(*call.inputs[kIndices]);
  TapeUse use = scatter_tape(call, element_count(Shape(indices.begin(), indices.end() - 1)));
  if (use.keeps.empty() && call.wants(kUpdates)) use.keeps = {kept_operand(kUpdates)};
  return use;
}

}  // namespace

std::vector<OpInfo> scatter_ops() {
  using Kind = AttributeKind;
  const AttributeInfo reduction{"reduction", Kind::kText, "none", false, {"none", "add", "mul", "max", "min"}};
  return {
      {.name = "core.scatter_elements",
       .summary = "x with updates written, or reduced into it, at an index of the same place on one axis",
       .onnx = {"ScatterElements", "Scatter"},
       .aten = {"aten::scatter", "aten::scatter_add", "aten::scatter_reduce"},
       .operands = {{"x"}, {"indices", Role::kIndex}, {"updates"}},
       .attributes = {{"axis", Kind::kInteger, Dim(0)}, reduction},
       .infer = infer_scatter_elements,
       .linear = linear_scatter,
       .lower = lower_scatter_elements,
       .fold = fold::scatter_elements,
       .gradient = gradient::scatter_elements,
       .tape = TapeInfo{.rule = scatter_elements_tape}},
      {.name = "core.scatter_nd",
       .summary = "x with updates written, or reduced into it, at tuples of indices, the last axis of `indices`",
       .onnx = {"ScatterND"},
       .aten = {"aten::index_copy", "aten::index_add", "aten::index_reduce"},
       .operands = {{"x"}, {"indices", Role::kIndex}, {"updates"}},
       .attributes = {reduction},
       .infer = infer_scatter_nd,
       .linear = linear_scatter,
       .picks = scatter_nd_picks,
       .lower = lower_scatter_nd,
       .fold = fold::scatter_nd,
       .gradient = gradient::scatter_nd,
       .tape = TapeInfo{.rule = scatter_nd_tape}},
  };
}

}  // namespace rannc::ir::ops
