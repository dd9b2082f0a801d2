// Backward operators of slicing and padding, after LibTorch's derivatives.
#include "ir/op/backward/grad_rules.h"
#include "ir/op/rules/cuts.h"

namespace rannc::ir::ops {
namespace {

using aten::Operand;
using aten::Scalar;
using Kind = AttributeKind;

// --- type rules

// The gradient's type with the operand's sizes, which must have the same rank.
Result<ValueType> sized_type(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  const Shape& sizes = *call.attributes.list("sizes");
  RANNC_TRY(require_sizes(call, sizes));
  if (sizes.size() != shape.size()) return error("sizes " + str(sizes) + " for a gradient of shape " + str(shape));
  return make_type(call.in(0).dtype, sizes, call.in(0).batch);
}

SliceLists slice_lists(const OpAttributes& attributes) {
  SliceLists lists{*attributes.list("starts"), *attributes.list("ends"), {}, {}};
  if (const Shape* axes = attributes.list("axes")) lists.axes = *axes;
  if (const Shape* steps = attributes.list("steps")) lists.steps = *steps;
  return lists;
}

bool is_whole(const Cut& cut, const Shape& sizes) {
  return cut.start == Dim(0) && cut.count == sizes[cut.axis] && cut.step == 1;
}

// Batch layout of the operand of a cut, whose axis has the given extent.
std::optional<BatchLayout> layout_before_cut(const OpCall& call, const Cut& cut, const Dim& extent) {
  BatchLayout layout = call.in(0).batch;
  if (cut.step == 1) {
    const auto outer = mini_batches(call, layout, extent);
    if (!outer) return std::nullopt;
    layout.outer = *outer;
  } else {
    layout.inner = layout.inner * Dim(cut.step);
  }
  const auto taken = cut_samples(call, layout, cut, extent);
  return taken == call.in(0).batch ? std::optional(layout) : std::nullopt;
}

Result<Types> infer_slice(const OpCall& call) {
  RANNC_ASSIGN(ValueType type, sized_type(call));
  RANNC_ASSIGN(const std::vector<Cut> cuts, cuts_of(&call, *type.shape, slice_lists(call.attributes)));
  Shape part = *type.shape;
  for (const Cut& cut : cuts) {
    if (!is_whole(cut, *type.shape) && type.batch.axis == cut.axis) {
      const auto layout = layout_before_cut(call, cut, (*type.shape)[cut.axis]);
      if (!layout) RANNC_TRY(keep_samples_apart(call, 0, cut.axis));
      type.batch = *layout;
    }
    part[cut.axis] = cut.count;
  }
  RANNC_TRY(require_gradient_shape(call, part));
  return Types{std::move(type)};
}

Result<Types> infer_pad(const OpCall& call) {
  RANNC_ASSIGN(ValueType type, sized_type(call));
  const Shape& pads = *call.attributes.list("pads");
  const size_t rank = type.shape->size();
  if (rank == 0 || pads.size() != 2 * rank) return error("pads " + str(pads) + " for rank " + std::to_string(rank));
  Shape padded = *type.shape;
  for (size_t i = 0; i < rank; ++i) {
    const bool none = pads[i] == Dim(0) && pads[i + rank] == Dim(0);
    if (!none) RANNC_TRY(keep_samples_apart(call, 0, static_cast<int64_t>(i)));
    padded[i] = padded[i] + pads[i] + pads[i + rank];
  }
  RANNC_TRY(require_gradient_shape(call, padded));
  return Types{std::move(type)};
}

// --- lowerings

// Reverts the cuts from the last to the first.
Result<aten::Lowering> lower_slice(const LowerCall& call) {
  const Shape& sizes = *call.attributes.list("sizes");
  RANNC_ASSIGN(const std::vector<Cut> cuts, cuts_of(nullptr, sizes, slice_lists(call.attributes)));
  Shape now = shape_of(*call.inputs[0]);
  Calls calls;
  aten::Value value = Operand{0};
  for (size_t k = cuts.size(); k-- > 0;) {
    const Cut& cut = cuts[k];
    if (is_whole(cut, sizes)) continue;
    now[cut.axis] = sizes[cut.axis];
    if (cut.step < 0) value = calls("aten::flip", {value, Shape{Dim(cut.axis)}});
    value =
        calls("aten::slice_backward", {value, now, cut.axis, cut.low(), cut.low() + cut.span(), std::abs(cut.step)});
  }
  return std::move(calls).with({value});
}

// Reverts circular padding of one axis, after cropping: adds the copies to the elements that they were copied from.
aten::Value unwrapped(Calls& calls, const aten::Value& value, const Shape& sizes, size_t axis, const Dim& before,
                      const Dim& after) {
  const Dim left = larger(before, 0), right = larger(after, 0);
  const Dim cropped_left = left - before, cropped_right = right - after;
  const Dim middle = sizes[axis] - cropped_left - cropped_right;
  const auto piece = [&](const Dim& start, const Dim& count) {
    return calls("aten::narrow", {value, static_cast<int64_t>(axis), start, count});
  };
  const auto padded = [&](const aten::Value& part, const Dim& low, const Dim& high) {
    Shape list((sizes.size() - axis) * 2, Dim(0));
    list[list.size() - 2] = low;
    list[list.size() - 1] = high;
    return calls("aten::constant_pad_nd", {part, list, Scalar{Dim(0)}});
  };
  aten::Made sum = piece(left, middle);
  if (!(left == Dim(0))) sum = calls("aten::add.Tensor", {sum, padded(piece(0, left), middle - left, 0)});
  if (!(right == Dim(0)))
    sum = calls("aten::add.Tensor", {sum, padded(piece(left + middle, right), 0, middle - right)});
  const bool whole = cropped_left == Dim(0) && cropped_right == Dim(0);
  return whole ? sum : padded(sum, cropped_left, cropped_right);
}

// Reverts padding axis by axis, as the forward pass pads, from the last padded axis on.
aten::Lowering unmirrored_one_by_one(const LowerCall& call, const std::string& name) {
  const Shape &sizes = *call.attributes.list("sizes"), &pads = *call.attributes.list("pads");
  Shape now = shape_of(*call.inputs[0]);
  const std::vector<size_t> axes = padded_axes(pads);
  Calls calls;
  aten::Value value = Operand{0};
  for (size_t k = axes.size(); k-- > 0;) {
    const size_t axis = axes[k];
    value = calls("aten::reshape", {value, around_axis(now, axis)});
    now[axis] = sizes[axis];
    const aten::Made padded = calls("aten::new_empty", {value, around_axis(now, axis)});
    const Shape list = {0, 0, pads[axis], pads[axis + sizes.size()]};
    value = calls("aten::" + name + "_pad2d_backward", {value, padded, list});
  }
  return std::move(calls).with({calls("aten::reshape", {value, sizes})});
}

Result<aten::Lowering> lower_pad(const LowerCall& call) {
  const Shape &sizes = *call.attributes.list("sizes"), &pads = *call.attributes.list("pads");
  const std::string mode = call.attributes.text("mode");
  const size_t first = first_padded(pads), rank = sizes.size();
  Calls calls;
  if (mode == "wrap") {
    aten::Value value = Operand{0};
    for (size_t i = first; i < rank; ++i) {
      if (pads[i] == Dim(0) && pads[i + rank] == Dim(0)) continue;
      value = unwrapped(calls, value, sizes, i, pads[i], pads[i + rank]);
    }
    return std::move(calls).with({value});
  }
  const std::string name = mode == "edge" ? "replication" : "reflection";
  const auto listed = first_listed(pads);
  if (!listed) return unmirrored_one_by_one(call, name);
  // LibTorch reads only the shape of the padded value.
  const aten::Made padded = calls("aten::new_empty", {Operand{0}, sizes});
  const std::string schema = "aten::" + name + "_pad" + std::to_string(rank - *listed) + "d_backward";
  return std::move(calls).with({calls(schema, {Operand{0}, padded, pads_from_last(pads, *listed)})});
}

}  // namespace

std::vector<OpInfo> grad_slice_ops() {
  const AttributeInfo sizes{.name = "sizes", .kind = Kind::kSizes, .required = true};
  const auto required = [](std::string_view name) {
    return AttributeInfo{.name = name, .kind = Kind::kSizes, .required = true};
  };
  const AttributeInfo mode{
      .name = "mode", .kind = Kind::kText, .required = true, .allowed = {"reflect", "edge", "wrap"}};
  return {by_rule(gradient_row("slice", "gy at the places that a slice of those sizes takes, 0 elsewhere", {},
                               infer_slice, elementwise_work<0>),
                  lower_slice, {"aten::slice_backward"},
                  {sizes, required("starts"), required("ends"), {"axes", Kind::kIntegers}, {"steps", Kind::kSizes}}),
          by_rule(gradient_row("pad", "gy with what pads copied added where it was copied from", {}, infer_pad,
                               elementwise_work<1>),
                  lower_pad,
                  {"aten::reflection_pad1d_backward", "aten::reflection_pad2d_backward",
                   "aten::reflection_pad3d_backward", "aten::replication_pad1d_backward",
                   "aten::replication_pad2d_backward", "aten::replication_pad3d_backward"},
                  {sizes, required("pads"), mode})};
}

}  // namespace rannc::ir::ops
