// Operators that create values from numbers and sizes.
#include <cmath>

#include "ir/op/rules/interval.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {
namespace {

// --- range

constexpr const char* kRangeNames[] = {"start", "limit", "delta"};

// One bound of a range: an integer expression, or a float.
using Bound = std::variant<Dim, double>;

std::optional<Bound> bound_of(const OpAttributes& attributes, const ValueType* type, size_t index) {
  if (const Attribute* found = attributes.find(kRangeNames[index])) {
    if (const auto* dim = std::get_if<Dim>(found)) return Bound(*dim);
    return Bound(number_value(*found));
  }
  if (type && type->contents && type->contents->size() == 1) return Bound((*type->contents)[0]);
  return std::nullopt;
}

const ValueType* type_at(std::span<const ValueType* const> types, size_t index) {
  return index < types.size() ? types[index] : nullptr;
}

Dim ceil_div(const Dim& a, const Dim& b) { return Dim(0) - floor_div(Dim(0) - a, b); }

std::optional<double> number_of(const Bound& bound) {
  if (const auto* number = std::get_if<double>(&bound)) return *number;
  const Dim& dim = std::get<Dim>(bound);
  return dim.is_constant() ? std::optional(static_cast<double>(dim.constant())) : std::nullopt;
}

// Number of elements of a range between floats. Fails if there are too many for any memory or the number is undefined.
Result<Dim> counted(double start, double limit, double delta) {
  constexpr double kMost = 0x1p53;
  const double count = std::ceil((limit - start) / delta);
  if (count <= kMost) return Dim(count > 0 ? static_cast<int64_t>(count) : 0);
  return error("range from " + number(start) + " to " + number(limit) + " by " + number(delta) + " has " +
               number(count) + " elements");
}

// Exact number of elements of a range between integers; at most 2^53.
Dim whole_count(int64_t start, int64_t limit, int64_t delta) {
  __extension__ typedef __int128 Wide;
  const Wide span = Wide{limit} - start;
  if ((span > 0) != (delta > 0) || span == 0) return 0;
  const Wide towards = delta > 0 ? delta - Wide{1} : delta + Wide{1};
  return static_cast<int64_t>((span + towards) / delta);
}

Result<Dim> range_count(const Bound& start, const Bound& limit, const Bound& delta) {
  const auto *from = std::get_if<Dim>(&start), *to = std::get_if<Dim>(&limit), *by = std::get_if<Dim>(&delta);
  const auto first = number_of(start), last = number_of(limit), step = number_of(delta);
  if (first && last && step) {
    RANNC_ASSIGN(Dim count, counted(*first, *last, *step));
    if (!from || !to || !by) return count;
  }
  if (!from || !to || !by) return error("a range with a symbolic bound needs integers for the others");
  if (first && last && step) return whole_count(from->constant(), to->constant(), by->constant());
  const Dim span = *to - *from;
  const Dim count = *by == Dim(1) ? span : ceil_div(span, *by);
  if (never_negative(count)) return count;
  return never_positive(count) ? Dim(0) : max(count, Dim(0));
}

Result<Types> infer_range(const OpCall& call) {
  Bound bounds[3] = {Dim(0), Dim(0), Dim(1)};
  for (size_t i = 0; i < 3; ++i) {
    if (const auto found = bound_of(call.attributes, type_at(call.inputs, i), i)) {
      bounds[i] = *found;
    } else if (i == 1 || call.has(i)) {
      return error("`" + std::string(kRangeNames[i]) + "` does not follow from sizes and constants");
    }
  }
  const auto dtype = call.attributes.dtype("dtype");
  const DType element = dtype ? *dtype : call.has(0) ? call.in(0).dtype : DType::kI64;
  if (bounds[2] == Bound(Dim(0)) || bounds[2] == Bound(0.0)) return error("range with delta 0");
  RANNC_ASSIGN(const Dim count, range_count(bounds[0], bounds[1], bounds[2]));
  const Shape shape = {count};
  RANNC_ASSIGN(BatchLayout layout, layout_from_sizes(call, shape));
  ValueType type = make_type(element, shape, std::move(layout));
  const auto *start = std::get_if<Dim>(&bounds[0]), *delta = std::get_if<Dim>(&bounds[2]);
  if (start && delta && count.is_constant() && count.constant() <= kMaxContents) {
    Contents contents;
    for (int64_t i = 0; i < count.constant(); ++i) contents.push_back(*start + Dim(i) * *delta);
    set_contents(type, std::move(contents));
  }
  return Types{std::move(type)};
}

// Uses the end of the elements in the type as the limit, because ATen rejects a limit on the other side of the start.
Result<aten::Lowering> lower_range(const LowerCall& call) {
  const ValueType& type = *call.outputs[0];
  const Dim& count = shape_of(type)[0];
  const auto bound = [&](size_t index, const Dim& otherwise) {
    return bound_of(call.attributes, type_at(call.inputs, index), index).value_or(otherwise);
  };
  const Bound start = bound(0, 0), delta = bound(2, 1);
  const auto *from = std::get_if<Dim>(&start), *by = std::get_if<Dim>(&delta);
  const Bound limit = count == Dim(0) ? start : from && by ? Bound(*from + count * *by) : bound(1, 0);
  const auto number = [](const Bound& each) {
    const auto* dim = std::get_if<Dim>(&each);
    return dim ? aten::Scalar{*dim} : aten::Scalar{std::get<double>(each)};
  };
  return one_call("aten::arange.start_step",
                  {number(start), number(limit), number(delta), {"dtype", type.dtype}, {"device", aten::Device{}}});
}

// --- full

Result<Types> infer_full(const OpCall& call) {
  RANNC_ASSIGN(Shape shape, list_argument(call, "shape", 0));
  RANNC_TRY(require_sizes(call, shape));
  const Attribute* value = call.attributes.find("value");
  const DType dtype = call.attributes.dtype("dtype").value_or(DType::kF32);
  RANNC_ASSIGN(BatchLayout layout, layout_from_sizes(call, shape));
  ValueType type = make_type(dtype, std::move(shape), std::move(layout));
  if (!is_float(dtype) && type.shape->size() <= 1) {
    const Dim count = element_count(*type.shape);
    if (count.is_constant() && count.constant() <= kMaxContents) {
      const auto* dim = value ? std::get_if<Dim>(value) : nullptr;
      const Dim element = dim ? *dim : Dim(value ? static_cast<int64_t>(number_value(*value)) : 0);
      set_contents(type, Contents(static_cast<size_t>(count.constant()), element));
    }
  }
  return Types{std::move(type)};
}

Result<aten::Lowering> lower_full(const LowerCall& call) {
  const ValueType& type = *call.outputs[0];
  const Attribute* value = call.attributes.find("value");
  const aten::Scalar filler = value ? number_attribute(*value, type.dtype) : number_attribute(0.0, type.dtype);
  return one_call("aten::full", {shape_of(type), filler, {"dtype", type.dtype}, {"device", aten::Device{}}});
}

}  // namespace

std::vector<OpInfo> create_ops() {
  using Kind = AttributeKind;
  const auto bound = [](std::string_view name) { return OperandInfo{name, Role::kSize, Presence::kOptional, name}; };
  return {
      {.name = "core.range",
       .summary = "numbers from start up to limit by delta",
       .onnx = {"Range"},
       .aten = {"aten::arange"},
       .operands = {bound("start"), bound("limit"), bound("delta")},
       .attributes =
           {{"start", Kind::kScalar}, {"limit", Kind::kScalar}, {"delta", Kind::kScalar}, {"dtype", Kind::kDType}},
       .infer = infer_range,
       .lower = lower_range,
       .interval = interval::range},
      {.name = "core.full",
       .summary = "one number, which may be a size, in every place",
       .onnx = {"ConstantOfShape"},
       .aten = {"aten::full"},
       .operands = {bound("shape")},
       .attributes = {{"shape", Kind::kSizes}, {"value", Kind::kScalar}, {"dtype", Kind::kDType}},
       .infer = infer_full,
       .lower = lower_full},
  };
}

}  // namespace rannc::ir::ops
