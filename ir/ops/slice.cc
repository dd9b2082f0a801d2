// Operators that cut values along axes or put them together.
#include <algorithm>
#include <limits>

#include "ir/ops/fold.h"
#include "ir/ops/interval.h"
#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

// --- concat

Result<Types> infer_concat(const OpCall& call) {
  if (call.inputs.empty()) return error("concat without operands");
  RANNC_ASSIGN(Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  std::optional<Contents> contents = Contents{};
  shape[axis] = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    RANNC_ASSIGN(const Shape part, shape_of(call, i));
    RANNC_TRY(common_dtype(call, {0, i}));
    RANNC_TRY(keep_samples_apart(call, i, axis));
    bool fits = part.size() == shape.size();
    for (size_t d = 0; fits && d < part.size(); ++d) fits = static_cast<int64_t>(d) == axis || part[d] == shape[d];
    if (!fits) {
      return error("operand " + std::to_string(i) + " of shape " + str(part) + " does not fit operand 0 of shape " +
                   str(*call.in(0).shape) + " along axis " + std::to_string(axis));
    }
    shape[axis] = shape[axis] + part[axis];
    if (!call.in(i).contents) contents.reset();
    if (contents) contents->insert(contents->end(), call.in(i).contents->begin(), call.in(i).contents->end());
  }
  RANNC_ASSIGN(BatchLayout layout, common_layout(call));
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

Result<Types> infer_split(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), from.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
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
    ValueType type = make_type(call.in(0).dtype, std::move(to), call.in(0).batch);
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

struct Cut {
  int64_t axis;
  Dim start, count;
  int64_t step;
};

constexpr int64_t kFar = int64_t{1} << 40;  // no axis is as long; exporters write 2^63-1 for "to the end"

// A bound counted from the end where negative, brought into low…high; nothing where its sign is open and may not be
// assumed. No call: the type rule has asked before.
std::optional<Dim> clamp_bound(const OpCall* call, const Dim& bound, const Dim& extent, const Dim& low,
                               const Dim& high) {
  Dim at = bound;
  if (bound.is_constant() && bound.constant() >= kFar) return high;
  if (bound.is_constant() && bound.constant() <= -kFar) return low;
  const auto bounds = bounds_of(bound);
  const bool from_end = bounds.high && *bounds.high < 0;
  if (from_end) {
    at = bound + extent;
  } else if (call != nullptr && !taken_for_not_negative(*call, bound)) {
    return std::nullopt;
  }
  if (never_positive(at - low)) return low;
  if (never_negative(at - high)) return high;
  if (from_end && !never_negative(at - low)) at = max(at, low);  // `low` is no more than 0
  if (!never_positive(at - high)) at = min(at, high);
  return at;
}

// Places from `first` up to `last`, `by` apart.
Dim places(const Dim& first, const Dim& last, int64_t by) {
  const Dim span = last - first;
  if (never_positive(span)) return 0;
  return floor_div((never_negative(span) ? span : max(span, Dim(0))) + Dim(by - 1), Dim(by));
}

Result<Cut> cut_of(const OpCall* call, const Shape& from, int64_t axis, const Dim& start, const Dim& end,
                   const Dim& step) {
  if (!step.is_constant() || step.constant() == 0) {
    return error("slice over axis " + std::to_string(axis) + " has step " + step.str());
  }
  const int64_t by = std::clamp(step.constant(), -kFar, kFar);
  const Dim& extent = from[axis];
  const Dim low = by > 0 ? Dim(0) : Dim(-1), high = by > 0 ? extent : extent - Dim(1);
  const auto first = clamp_bound(call, start, extent, low, high), last = clamp_bound(call, end, extent, low, high);
  if (!first || !last) {
    return error("whether " + (first ? end : start).str() + " counts from the end of axis " + std::to_string(axis) +
                 " depends on the number of samples");
  }
  return Cut{axis, *first, by > 0 ? places(*first, *last, by) : places(*last, *first, -by), by};
}

// The cuts of the task: one per axis, from attributes or known operands.
template <class GetList>
Result<std::vector<Cut>> cuts_of(const OpCall* call, const Shape& from, bool axes_given, bool steps_given,
                                 GetList&& list) {
  RANNC_ASSIGN(const Shape starts, list("starts", 1));
  RANNC_ASSIGN(const Shape ends, list("ends", 2));
  Shape axes, steps(starts.size(), Dim(1));
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (axes_given) {
    RANNC_ASSIGN(axes, list("axes", 3));
  }
  if (steps_given) {
    RANNC_ASSIGN(steps, list("steps", 4));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    return error("starts " + str(starts) + ", ends " + str(ends) + ", axes " + str(axes) + " and steps " + str(steps) +
                 " differ in length");
  }
  std::vector<Cut> cuts;
  for (size_t i = 0; i < starts.size(); ++i) {
    if (!axes[i].is_constant()) return error("axes " + str(axes) + " are not numbers");
    RANNC_ASSIGN(const int64_t axis, checked_axis(axes[i].constant(), from.size()));
    if (std::any_of(cuts.begin(), cuts.end(), [&](const Cut& cut) { return cut.axis == axis; })) {
      return error("axis " + std::to_string(axis) + " is cut twice");
    }
    RANNC_ASSIGN(Cut cut, cut_of(call, from, axis, starts[i], ends[i], steps[i]));
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

Result<Types> infer_slice(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const std::vector<Cut> cuts,
               cuts_of(&call, from, has_list_argument(call, "axes", 3), has_list_argument(call, "steps", 4),
                       [&](std::string_view name, size_t operand) { return list_argument(call, name, operand); }));
  Shape to = from;
  std::optional<Contents> contents = call.in(0).contents;
  for (const Cut& cut : cuts) {
    const bool whole = cut.start == Dim(0) && cut.count == from[cut.axis] && cut.step == 1;
    if (!whole) RANNC_TRY(keep_samples_apart(call, 0, cut.axis));
    to[cut.axis] = cut.count;
    if (!whole && (!cut.start.is_constant() || !cut.count.is_constant())) contents.reset();
    if (whole || !contents) continue;
    Contents picked;
    for (int64_t i = 0; i < cut.count.constant(); ++i)
      picked.push_back((*contents)[cut.start.constant() + i * cut.step]);
    contents = std::move(picked);
  }
  ValueType type = make_type(call.in(0).dtype, std::move(to), call.in(0).batch);
  set_contents(type, std::move(contents));
  return Types{std::move(type)};
}

// ATen has no negative steps: the range is taken forwards and flipped.
Result<aten::Lowering> lower_slice(const LowerCall& call) {
  const auto given = [&](std::string_view name, size_t operand) {
    return call.attributes.has(name) || call.has(operand);
  };
  RANNC_ASSIGN(const std::vector<Cut> cuts,
               cuts_of(nullptr, shape_of(*call.inputs[0]), given("axes", 3), given("steps", 4),
                       [&](std::string_view name, size_t operand) { return lowered_list(call, name, operand); }));
  Calls calls;
  aten::Value value = aten::Operand{0};
  for (const Cut& cut : cuts) {
    const Dim span = cut.count == Dim(0) ? Dim(0) : (cut.count - Dim(1)) * Dim(std::abs(cut.step)) + Dim(1);
    const Dim low = cut.step > 0 || cut.count == Dim(0) ? cut.start : cut.start - span + Dim(1);
    value = calls("aten::slice.Tensor", {value, cut.axis, low, low + span, std::abs(cut.step)});
    if (cut.step < 0) value = calls("aten::flip", {value, Shape{Dim(cut.axis)}});
  }
  return std::move(calls).with({value});
}

// --- pad

Result<Types> infer_pad(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Shape pads, list_argument(call, "pads", 1));
  if (pads.size() != 2 * from.size()) {
    return error("pads " + str(pads) + " must have two entries for each axis of " + str(from));
  }
  Shape to = from;
  for (size_t i = 0; i < from.size(); ++i) {
    const Dim &before = pads[i], &after = pads[i + from.size()];
    if (!(before == Dim(0)) || !(after == Dim(0))) RANNC_TRY(keep_samples_apart(call, 0, static_cast<int64_t>(i)));
    to[i] = from[i] + before + after;
  }
  RANNC_TRY(require_sizes(call, to));
  return Types{make_type(call.in(0).dtype, std::move(to), call.in(0).batch)};
}

// ATen lists pads from the last axis on; modes other than "constant" leave leading axes without pads out.
Result<aten::Lowering> lower_pad(const LowerCall& call) {
  RANNC_ASSIGN(const Shape pads, lowered_list(call, "pads", 1));
  const size_t rank = pads.size() / 2;
  const std::string mode = call.attributes.text("mode");
  size_t first = 0;
  while (mode != "constant" && first + 1 < rank && pads[first] == Dim(0) && pads[first + rank] == Dim(0)) ++first;
  Shape list;
  for (size_t i = rank; i-- > first;) {
    list.push_back(pads[i]);
    list.push_back(pads[i + rank]);
  }
  if (mode == "constant") {
    const Attribute* value = call.attributes.find("value");
    const aten::Scalar filler = value ? number_attribute(*value, call.inputs[0]->dtype) : aten::Scalar{Dim(0)};
    return one_call("aten::constant_pad_nd", {aten::Operand{0}, list, filler});
  }
  const std::string name = mode == "edge" ? "replicate" : mode == "wrap" ? "circular" : "reflect";
  return one_call("aten::pad", {aten::Operand{0}, list, aten::Text{name}});
}

Work view_work(const OpCall&, std::span<const ValueType>) { return {}; }

TapeUse pad_tape(const TapeCall& call) {
  TapeUse use;
  if (OpAttributes(call.op, call.attributes).text("mode") != "constant") use.keeps = {kept_operand(0)};
  return use;
}

}  // namespace

std::vector<OpInfo> slice_ops() {
  using Kind = AttributeKind;
  const auto bound = [](std::string_view name) { return OperandInfo{name, Role::kSize, Presence::kOptional, name}; };
  return {
      {.name = "core.concat",
       .says = "operands one after another along an axis",
       .onnx = {"Concat"},
       .aten = {"aten::cat"},
       .operands = {{.name = "parts", .presence = Presence::kVariadic}},
       .attributes = {{.name = "axis", .kind = Kind::kInteger, .required = true}},
       .infer = infer_concat,
       .lower = lower_concat,
       .fold = fold::concat,
       .interval = interval::concat,
       .tape = TapeInfo{}},
      {.name = "core.split",
       .says = "parts of x along an axis, one result per size",
       .onnx = {"Split"},
       .aten = {"aten::split_with_sizes", "aten::narrow"},
       .operands = {{"x"}, bound("sizes")},
       .attributes = {{"axis", Kind::kInteger, Dim(0)}, {"sizes", Kind::kSizes}},
       .results = {{"parts", Presence::kVariadic}},
       .view = View::kPart,
       .infer = infer_split,
       .work = view_work,
       .lower = lower_split,
       .fold = fold::split,
       .tape = TapeInfo{}},
      {.name = "core.slice",
       .says = "x from starts to ends by steps; bounds negative or beyond as in ONNX",
       .onnx = {"Slice"},
       .aten = {"aten::slice"},
       .operands = {{"x"}, bound("starts"), bound("ends"), bound("axes"), bound("steps")},
       .attributes =
           {{"axes", Kind::kIntegers}, {"starts", Kind::kSizes}, {"ends", Kind::kSizes}, {"steps", Kind::kSizes}},
       .view = View::kPart,
       .infer = infer_slice,
       .work = view_work,
       .lower = lower_slice,
       .fold = fold::slice,
       .tape = TapeInfo{}},
      {.name = "core.pad",
       .says = "x with elements more before and after each axis; pads are begin…end",
       .onnx = {"Pad"},
       .aten = {"aten::pad", "aten::constant_pad_nd"},
       .operands = {{"x"}, bound("pads")},
       .attributes = {{"pads", Kind::kSizes},
                      {"value", Kind::kScalar},
                      {"mode", Kind::kText, "constant", false, {"constant", "reflect", "edge", "wrap"}}},
       .infer = infer_pad,
       .lower = lower_pad,
       .fold = fold::pad,
       .tape = TapeInfo{.rule = pad_tape}},
  };
}

}  // namespace rannc::ir::ops
