// Operators that split, slice, pad or concatenate values along axes.
#include <algorithm>

#include "ir/op/folding/fold.h"
#include "ir/op/gradients/gradients_elementwise.h"
#include "ir/op/rules/cuts.h"
#include "ir/op/rules/interval.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {
namespace {

// --- concat

// Layout of a concatenation along the batch axis: mini-batches one after another. Nothing if an operand has no samples
// or has them on another axis.
std::optional<BatchLayout> layout_along_samples(const OpCall& call, int64_t axis) {
  BatchLayout all = call.in(0).batch;
  if (all.axis != axis) return std::nullopt;
  all.outer = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const BatchLayout& part = call.in(i).batch;
    if (part.axis != axis || !(part.inner == all.inner)) return std::nullopt;
    all.outer = all.outer + part.outer;
  }
  return all;
}

Result<Types> infer_concat(const OpCall& call) {
  if (call.inputs.empty()) return error("concat without operands");
  RANNC_ASSIGN(Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  std::optional<Contents> contents = Contents{};
  shape[axis] = 0;
  const auto along = layout_along_samples(call, axis);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    RANNC_ASSIGN(const Shape part, shape_of(call, i));
    RANNC_TRY(common_dtype(call, {0, i}));
    if (!along) RANNC_TRY(keep_samples_apart(call, i, axis));
    bool fits = part.size() == shape.size();
    for (size_t d = 0; fits && d < part.size(); ++d)
      fits = static_cast<int64_t>(d) == axis || taken_for_equal(call, part[d], shape[d]);
    if (!fits) {
      return error("operand " + std::to_string(i) + " of shape " + str(part) + " does not fit operand 0 of shape " +
                   str(*call.in(0).shape) + " along axis " + std::to_string(axis));
    }
    shape[axis] = shape[axis] + part[axis];
    if (!call.in(i).contents) contents.reset();
    if (contents) contents->insert(contents->end(), call.in(i).contents->begin(), call.in(i).contents->end());
  }
  BatchLayout layout;
  if (along) {
    layout = *along;
  } else {
    RANNC_ASSIGN(layout, common_layout(call));
  }
  ValueType type = make_type(call.in(0).dtype, std::move(shape), std::move(layout));
  set_contents(type, std::move(contents));
  return Types{std::move(type)};
}

Result<aten::Lowering> lower_concat(const LowerCall& call) {
  std::vector<aten::Value> parts;
  for (uint32_t i = 0; i < call.inputs.size(); ++i) parts.push_back(aten::Operand{i});
  return one_call("aten::cat", {parts, call.attributes.integer("axis")});
}

// --- split

// Layout of a part of `size` positions. Fails if the part would contain only some of the samples.
Result<BatchLayout> layout_of_part(const OpCall& call, int64_t axis, const Dim& size) {
  BatchLayout layout = call.in(0).batch;
  if (layout.axis != axis) return layout;
  const auto outer = mini_batches(call, layout, size);
  if (!outer || *outer == Dim(0)) RANNC_TRY(keep_samples_apart(call, 0, axis));
  layout.outer = *outer;
  return layout;
}

Result<Types> infer_split(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), from.size()));
  RANNC_ASSIGN(const Shape sizes, list_argument(call, "sizes", 1));
  if (sizes.size() != call.output_count) {
    return error("split into " + std::to_string(sizes.size()) + " sizes but " + std::to_string(call.output_count) +
                 " outputs");
  }
  Dim sum = 0;
  Types types;
  for (const Dim& size : sizes) {
    if (!taken_for_not_negative(call, size)) return error("size " + size.str() + " of " + str(sizes) + " is negative");
    const Dim begin = sum;
    sum = sum + size;
    Shape to = from;
    to[axis] = size;
    RANNC_ASSIGN(BatchLayout layout, layout_of_part(call, axis, size));
    ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
    if (call.in(0).contents && begin.is_constant() && sum.is_constant() &&
        sum.constant() <= static_cast<int64_t>(call.in(0).contents->size())) {
      const auto data = call.in(0).contents->begin();
      set_contents(type, Contents(data + begin.constant(), data + sum.constant()));
    }
    types.push_back(std::move(type));
  }
  if (!taken_for_equal(call, sum, from[axis])) {
    return error("sizes " + str(sizes) + " add up to " + sum.str() + ", axis " + std::to_string(axis) + " of " +
                 str(from) + " has " + from[axis].str());
  }
  return types;
}

Result<aten::Lowering> lower_split(const LowerCall& call) {
  const int64_t given = call.attributes.integer("axis");
  const auto rank = static_cast<int64_t>(shape_of(*call.inputs[0]).size());
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  Calls calls;
  std::vector<aten::Value> parts;
  Dim start = 0;
  for (const ValueType* part : call.outputs) {
    const Dim size = shape_of(*part)[axis];
    parts.push_back(calls("aten::narrow", {aten::Operand{0}, axis, start, size}));
    start = start + size;
  }
  return std::move(calls).with(std::move(parts));
}

// --- slice

// The operands of a slice as found by `list`: attributes, or operands with known contents.
template <class Has, class List>
Result<SliceLists> slice_lists(Has&& has, List&& list) {
  SliceLists lists;
  RANNC_ASSIGN(lists.starts, list("starts", 1));
  RANNC_ASSIGN(lists.ends, list("ends", 2));
  if (has("axes", 3)) {
    RANNC_ASSIGN(lists.axes, list("axes", 3));
  }
  if (has("steps", 4)) {
    RANNC_ASSIGN(lists.steps, list("steps", 4));
  }
  return lists;
}

Result<Types> infer_slice(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  const auto has = [&](std::string_view name, size_t operand) { return has_list_argument(call, name, operand); };
  const auto list = [&](std::string_view name, size_t operand) { return list_argument(call, name, operand); };
  RANNC_ASSIGN(const SliceLists lists, slice_lists(has, list));
  RANNC_ASSIGN(const std::vector<Cut> cuts, cuts_of(&call, from, lists));
  Shape to = from;
  BatchLayout layout = call.in(0).batch;
  std::optional<Contents> contents = call.in(0).contents;
  for (const Cut& cut : cuts) {
    const bool whole = cut.start == Dim(0) && cut.count == from[cut.axis] && cut.step == 1;
    if (!whole && layout.axis == cut.axis) {
      const auto left = cut_samples(call, layout, cut, from[cut.axis]);
      if (!left) RANNC_TRY(keep_samples_apart(call, 0, cut.axis));
      layout = *left;
    }
    to[cut.axis] = cut.count;
    if (!whole && (!cut.start.is_constant() || !cut.count.is_constant())) contents.reset();
    if (whole || !contents) continue;
    Contents picked;
    for (int64_t i = 0; i < cut.count.constant(); ++i)
      picked.push_back((*contents)[cut.start.constant() + i * cut.step]);
    contents = std::move(picked);
  }
  ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
  set_contents(type, std::move(contents));
  return Types{std::move(type)};
}

// ATen has no negative steps, so the range is sliced forwards and flipped.
Result<aten::Lowering> lower_slice(const LowerCall& call) {
  const auto has = [&](std::string_view name, size_t operand) {
    return call.attributes.has(name) || call.has(operand);
  };
  const auto list = [&](std::string_view name, size_t operand) { return lowered_list(call, name, operand); };
  RANNC_ASSIGN(const SliceLists lists, slice_lists(has, list));
  RANNC_ASSIGN(const std::vector<Cut> cuts, cuts_of(nullptr, shape_of(*call.inputs[0]), lists));
  Calls calls;
  aten::Value value = aten::Operand{0};
  for (const Cut& cut : cuts) {
    value = calls("aten::slice.Tensor", {value, cut.axis, cut.low(), cut.low() + cut.span(), std::abs(cut.step)});
    if (cut.step < 0) value = calls("aten::flip", {value, Shape{Dim(cut.axis)}});
  }
  return std::move(calls).with({value});
}

// --- pad

// A mirrored pad must be smaller than the axis.
Result<void> require_mirrored(const Shape& from, const Shape& pads) {
  for (size_t i = 0; i < pads.size(); ++i) {
    const Dim& extent = from[i % from.size()];
    const bool beyond = pads[i].is_constant() && extent.is_constant() && pads[i].constant() > 0 &&
                        pads[i].constant() >= extent.constant();
    if (!beyond) continue;
    return error("pads " + str(pads) + " mirror " + pads[i].str() + " elements of axis " +
                 std::to_string(i % from.size()) + " of " + str(from) + ", which has no more than " +
                 std::to_string(std::max<int64_t>(extent.constant() - 1, 0)) + " beside its end");
  }
  return {};
}

// Number of mini-batches along the batch axis after padding with whole constant mini-batches or cutting some away.
std::optional<Dim> padded_samples(const OpCall& call, const BatchLayout& layout, const Dim& before, const Dim& after) {
  const auto first = mini_batches(call, layout, before), last = mini_batches(call, layout, after);
  if (!first || !last || call.attributes.text("mode") != "constant") return std::nullopt;
  const Dim outer = layout.outer + *first + *last;
  return never_negative(outer - Dim(1)) ? std::optional(outer) : std::nullopt;
}

Result<Types> infer_pad(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Shape pads, list_argument(call, "pads", 1));
  if (pads.size() != 2 * from.size()) {
    return error("pads " + str(pads) + " must have two entries for each axis of " + str(from));
  }
  Shape to = from;
  BatchLayout layout = call.in(0).batch;
  for (size_t i = 0; i < from.size(); ++i) {
    const Dim &before = pads[i], &after = pads[i + from.size()];
    to[i] = from[i] + before + after;
    if ((before == Dim(0) && after == Dim(0)) || layout.axis != static_cast<int32_t>(i)) continue;
    const auto outer = padded_samples(call, layout, before, after);
    if (!outer) RANNC_TRY(keep_samples_apart(call, 0, static_cast<int64_t>(i)));
    layout.outer = *outer;
  }
  RANNC_TRY(require_sizes(call, to));
  if (call.attributes.text("mode") == "reflect") RANNC_TRY(require_mirrored(from, pads));
  return Types{make_type(call.in(0).dtype, std::move(to), std::move(layout))};
}

// Pads axis by axis, each as the third of four, if one ATen call does not support the axes.
aten::Lowering pad_one_by_one(const LowerCall& call, const Shape& pads, const aten::Text& mode) {
  Shape now = shape_of(*call.inputs[0]);
  Calls calls;
  aten::Value value = aten::Operand{0};
  for (const size_t axis : padded_axes(pads)) {
    const Dim &before = pads[axis], &after = pads[axis + now.size()];
    value = calls("aten::reshape", {value, around_axis(now, axis)});
    value = calls("aten::pad", {value, Shape{0, 0, before, after}, mode});
    now[axis] = now[axis] + before + after;
  }
  return std::move(calls).with({calls("aten::reshape", {value, now})});
}

Result<aten::Lowering> lower_pad(const LowerCall& call) {
  RANNC_ASSIGN(const Shape pads, lowered_list(call, "pads", 1));
  const std::string mode = call.attributes.text("mode");
  if (mode == "constant") {
    const Attribute* value = call.attributes.find("value");
    const aten::Scalar filler = value ? number_attribute(*value, call.inputs[0]->dtype) : aten::Scalar{Dim(0)};
    return one_call("aten::constant_pad_nd", {aten::Operand{0}, pads_from_last(pads, 0), filler});
  }
  const aten::Text name{mode == "edge" ? "replicate" : mode == "wrap" ? "circular" : "reflect"};
  if (const auto first = first_listed(pads)) {
    return one_call("aten::pad", {aten::Operand{0}, pads_from_last(pads, *first), name});
  }
  return pad_one_by_one(call, pads, name);
}

Linear linear_pad(const OpCall& call) {
  const Attribute* value = call.attributes.find("value");
  const bool zero = value == nullptr || number_attribute(*value, DType::kF64) == aten::Scalar{0.0};
  return zero || call.attributes.text("mode") != "constant" ? Linear::kFirst : Linear::kNo;
}

TapeUse pad_tape(const TapeCall& call) {
  TapeUse use;
  const std::string mode = OpAttributes(call.op, call.attributes).text("mode");
  if (mode != "reflect" && mode != "edge") return use;
  use.keeps = {kept_operand(0)};
  const Shape* pads = call.attributes.list("pads");
  if (pads == nullptr || first_listed(*pads)) return use;
  // The axes are padded one after the other, so the intermediate values stay in memory too.
  Shape now = shape_of(*call.inputs[0]);
  const std::vector<size_t> axes = padded_axes(*pads);
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    now[axes[i]] = now[axes[i]] + (*pads)[axes[i]] + (*pads)[axes[i] + now.size()];
    use.own_bytes = use.own_bytes + element_count(now) * Dim(byte_size(call.inputs[0]->dtype));
  }
  return use;
}

}  // namespace

std::vector<OpInfo> slice_ops() {
  using Kind = AttributeKind;
  const auto bound = [](std::string_view name) { return OperandInfo{name, Role::kSize, Presence::kOptional, name}; };
  return {
      {.name = "core.concat",
       .summary = "operands one after another along an axis",
       .onnx = {"Concat"},
       .aten = {"aten::cat"},
       .operands = {{.name = "parts", .presence = Presence::kVariadic}},
       .attributes = {{"axis", Kind::kInteger, Dim(0)}},
       .infer = infer_concat,
       .linear = always<Linear::kTogether>,
       .lower = lower_concat,
       .fold = fold::concat,
       .interval = interval::concat,
       .gradient = gradient::concat},
      {.name = "core.split",
       .summary = "parts of x along an axis, one result per size",
       .onnx = {"Split"},
       .aten = {"aten::split_with_sizes", "aten::narrow"},
       .operands = {{"x"}, bound("sizes")},
       .attributes = {{"axis", Kind::kInteger, Dim(0)}, {"sizes", Kind::kSizes}},
       .results = {{"parts", Presence::kVariadic}},
       .view = View::kPart,
       .infer = infer_split,
       .linear = always<Linear::kFirst>,
       .work = view_work,
       .lower = lower_split,
       .fold = fold::split,
       .gradient = gradient::split},
      {.name = "core.slice",
       .summary = "x from starts to ends by steps; bounds negative or beyond as in ONNX",
       .onnx = {"Slice"},
       .aten = {"aten::slice"},
       .operands = {{"x"}, bound("starts"), bound("ends"), bound("axes"), bound("steps")},
       .attributes =
           {{"axes", Kind::kIntegers}, {"starts", Kind::kSizes}, {"ends", Kind::kSizes}, {"steps", Kind::kSizes}},
       .view = View::kPart,
       .infer = infer_slice,
       .linear = always<Linear::kFirst>,
       .work = view_work,
       .lower = lower_slice,
       .fold = fold::slice,
       .gradient = gradient::slice},
      {.name = "core.pad",
       .summary = "x with elements more before and after each axis; pads are begin…end",
       .onnx = {"Pad"},
       .aten = {"aten::pad", "aten::constant_pad_nd"},
       .operands = {{"x"}, bound("pads")},
       .attributes = {{"pads", Kind::kSizes},
                      {"value", Kind::kScalar},
                      {"mode", Kind::kText, "constant", false, {"constant", "reflect", "edge", "wrap"}}},
       .infer = infer_pad,
       .linear = linear_pad,
       .lower = lower_pad,
       .fold = fold::pad,
       .gradient = gradient::pad,
       .tape = TapeInfo{.rule = pad_tape}},
  };
}

}  // namespace rannc::ir::ops
