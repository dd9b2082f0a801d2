// Operators that only rearrange elements or read sizes.
#include <algorithm>

#include "ir/op/folding/fold.h"
#include "ir/op/gradients/gradients_elementwise.h"
#include "ir/op/rules/interval.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {
namespace {

// --- reshape

// Replaces the single -1 of `target` by the remaining extent of `from`.
Result<Shape> resolve(const OpCall& call, const Shape& from, Shape target) {
  const Dim count = element_count(from);
  Dim rest = 1;
  std::optional<size_t> hole;
  for (size_t i = 0; i < target.size(); ++i) {
    if (!(target[i] == Dim(-1))) {
      rest = rest * target[i];
    } else if (hole) {
      return error("target shape " + str(target) + " has more than one -1");
    } else {
      hole = i;
    }
  }
  const std::string text = "cannot reshape " + str(from) + " into " + str(target);
  if (hole) {
    const auto exact = exact_div(count, rest);
    target[*hole] = exact ? *exact : floor_div(count, rest);
    if (exact || (!(rest == Dim(0)) && taken_for_equal(call, target[*hole] * rest, count))) return target;
    return error(text + ": " + count.str() + " elements do not divide by " + rest.str());
  }
  if (taken_for_equal(call, count, rest)) return target;
  return error(text + ": " + count.str() + " elements against " + rest.str());
}

Result<Types> infer_reshape(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Shape target, list_argument(call, "shape", 1));
  RANNC_ASSIGN(Shape to, resolve(call, from, target));
  RANNC_TRY(require_sizes(call, to));
  RANNC_ASSIGN(BatchLayout layout, reshape_layout(call, call.in(0).batch, from, to));
  ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
  set_contents(type, call.in(0).contents);
  return Types{std::move(type)};
}

Result<aten::Lowering> lower_reshape(const LowerCall& call) {
  return one_call("aten::reshape", {aten::Operand{0}, shape_of(*call.outputs[0])});
}

// --- permute

Result<Types> infer_permute(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  const std::vector<int64_t> dims = call.attributes.integers("dims");
  RANNC_TRY(checked_axes(dims, from.size()));
  if (dims.size() != from.size()) {
    return error("dims has " + std::to_string(dims.size()) + " entries for rank " + std::to_string(from.size()));
  }
  Shape to;
  BatchLayout layout = call.in(0).batch;
  for (size_t i = 0; i < dims.size(); ++i) {
    RANNC_ASSIGN(const int64_t axis, checked_axis(dims[i], from.size()));
    to.push_back(from[axis]);
    if (axis == call.in(0).batch.axis) layout.axis = static_cast<int32_t>(i);
  }
  ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
  set_contents(type, call.in(0).contents);
  return Types{std::move(type)};
}

// --- expand, tile

Result<Types> infer_expand(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Shape target, list_argument(call, "shape", 1));
  RANNC_TRY(require_sizes(call, target));
  RANNC_ASSIGN(Shape to, broadcast(call, from, target));
  BatchLayout layout = call.in(0).batch;
  if (layout.has_batch()) {
    layout.axis += static_cast<int32_t>(to.size() - from.size());
    Shape others = to;
    others[layout.axis] = 1;
    RANNC_ASSIGN(const BatchLayout second, layout_from_sizes(call, others));
    if (second.has_batch()) {
      return error("expanding " + str(from) + " to " + str(to) + " would pair samples with samples");
    }
  } else {
    RANNC_ASSIGN(layout, layout_from_sizes(call, to));
  }
  ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
  if (call.in(0).contents && type.shape->size() == 1 && (*type.shape)[0].is_constant()) {
    const auto n = static_cast<size_t>(std::min<int64_t>((*type.shape)[0].constant(), kMaxContents + 1));
    set_contents(type,
                 call.in(0).contents->size() == 1 ? Contents(n, (*call.in(0).contents)[0]) : *call.in(0).contents);
  } else {
    set_contents(type, call.in(0).contents);
  }
  return Types{std::move(type)};
}

Result<aten::Lowering> lower_expand(const LowerCall& call) {
  return one_call("aten::expand", {aten::Operand{0}, shape_of(*call.outputs[0])});
}

Result<Types> infer_tile(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  RANNC_ASSIGN(const Shape repeats, list_argument(call, "repeats", 1));
  if (repeats.size() != from.size()) {
    return error("repeats " + str(repeats) + " do not fit rank " + std::to_string(from.size()));
  }
  Shape to;
  RANNC_TRY(require_sizes(call, repeats));
  for (size_t i = 0; i < from.size(); ++i) to.push_back(from[i] * repeats[i]);
  BatchLayout layout = call.in(0).batch;
  if (!layout.has_batch()) {
    RANNC_ASSIGN(layout, layout_from_sizes(call, to));
    // Copies are concatenated. If the repeats count samples, the copied extent varies fastest.
  } else {
    layout.outer = layout.outer * repeats[layout.axis];
    Shape others = to;
    others[layout.axis] = 1;
    RANNC_ASSIGN(const BatchLayout second, layout_from_sizes(call, others));
    if (second.has_batch() || (!call.batch_symbol.empty() && repeats[layout.axis].uses(call.batch_symbol))) {
      return error("tiling " + str(from) + " by " + str(repeats) + " would pair samples with samples");
    }
  }
  return Types{make_type(call.in(0).dtype, std::move(to), std::move(layout))};
}

Result<aten::Lowering> lower_tile(const LowerCall& call) {
  RANNC_ASSIGN(const Shape repeats, lowered_list(call, "repeats", 1));
  return one_call("aten::repeat", {aten::Operand{0}, repeats});
}

// --- unsqueeze, squeeze

Result<Types> infer_unsqueeze(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  const std::vector<int64_t> given = call.attributes.integers("axes");
  const size_t rank = from.size() + given.size();
  RANNC_ASSIGN(const std::vector<int64_t> axes, checked_axes(given, rank));
  Shape to;
  BatchLayout layout = call.in(0).batch;
  for (size_t i = 0, source = 0; i < rank; ++i) {
    if (std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i))) {
      to.push_back(1);
      continue;
    }
    if (static_cast<int32_t>(source) == call.in(0).batch.axis) layout.axis = static_cast<int32_t>(i);
    to.push_back(from[source++]);
  }
  ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
  set_contents(type, call.in(0).contents);
  return Types{std::move(type)};
}

Result<Types> infer_squeeze(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  std::vector<int64_t> given = call.attributes.integers("axes");
  if (!call.attributes.has("axes")) {
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == Dim(1)) given.push_back(static_cast<int64_t>(i));
    }
  }
  RANNC_ASSIGN(const std::vector<int64_t> axes, checked_axes(given, from.size()));
  Shape to;
  BatchLayout layout = call.in(0).batch;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i))) {
      if (static_cast<int32_t>(i) == call.in(0).batch.axis) layout.axis = static_cast<int32_t>(to.size());
      to.push_back(from[i]);
    } else if (!taken_for_equal(call, from[i], Dim(1))) {
      return error("axis " + std::to_string(i) + " of " + str(from) + " has extent " + from[i].str() +
                   " and cannot be squeezed");
    }
  }
  ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
  set_contents(type, call.in(0).contents);
  return Types{std::move(type)};
}

// --- shape

Result<Types> infer_shape(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 0));
  const auto rank = static_cast<int64_t>(from.size());
  auto bound = [&](std::string_view name, int64_t otherwise) {
    const int64_t at = call.attributes.has(name) ? call.attributes.integer(name) : otherwise;
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
  ValueType type = make_type(DType::kI64, {Dim(end - start)});
  set_contents(type, Contents(from.begin() + start, from.begin() + end));
  return Types{std::move(type)};
}

// Sizes are known expressions, so the operand's data is not read.
Result<aten::Lowering> lower_shape(const LowerCall& call) {
  if (!call.outputs[0]->contents) return error("the sizes of the operand are not known");
  Calls calls;
  std::vector<aten::Value> sizes;
  for (const Dim& size : *call.outputs[0]->contents) {
    sizes.push_back(
        calls("aten::scalar_tensor", {aten::Scalar{size}, {"dtype", DType::kI64}, {"device", aten::Device{}}}));
  }
  if (sizes.empty())
    return one_call("aten::zeros", {Shape{Dim(0)}, {"dtype", DType::kI64}, {"device", aten::Device{}}});
  return std::move(calls).with({calls("aten::stack", {sizes})});
}

// --- work: nothing is computed; views move nothing

OpInfo row(std::string_view name, std::string_view summary, std::vector<std::string_view> onnx, InferRule infer,
           View view, FoldRule fold, IntervalRule interval, GradientRule gradient) {
  return {.name = "core." + std::string(name),
          .summary = summary,
          .onnx = std::move(onnx),
          .operands = {{"x"}},
          .view = view,
          .infer = infer,
          .linear = always<Linear::kFirst>,
          .work = view_work,
          .fold = fold,
          .interval = interval,
          .gradient = gradient};
}

/// Sizes come from the attribute of that name, or from operand 1.
OpInfo with_sizes(OpInfo op, std::string_view name) {
  op.operands.push_back({name, Role::kSize, Presence::kOptional, name});
  op.attributes = {{name, AttributeKind::kSizes}};
  return op;
}

OpInfo with_axes(OpInfo op, AttributeInfo axes) {
  op.attributes = {std::move(axes)};
  return op;
}

}  // namespace

std::vector<OpInfo> shape_ops() {
  OpInfo permute = with_axes(row("permute", "x with its axes in another order", {"Transpose"}, infer_permute,
                                 View::kPermuted, fold::permute, interval::permute, gradient::permute),
                             {.name = "dims", .kind = AttributeKind::kIntegers, .required = true});
  permute.form = form("aten::permute", 1, {{"", aten::FromAttribute{"dims"}}});
  OpInfo tile = row("tile", "x several times along each axis", {"Tile"}, infer_tile, View::kNone, fold::tile, nullptr,
                    gradient::tile);
  tile.work = nullptr;
  OpInfo shape{.name = "core.shape",
               .summary = "sizes of the axes from `start` to `end`",
               .onnx = {"Shape", "Size"},
               .operands = {{"x", Role::kShape}},
               .attributes = {{"start", AttributeKind::kInteger}, {"end", AttributeKind::kInteger}},
               .infer = infer_shape,
               .work = view_work};
  return {
      with_sizes(by_rule(row("reshape", "x in another shape; one size may be -1, none 0", {"Reshape", "Flatten"},
                             infer_reshape, View::kWhereContiguous, fold::view, interval::view, gradient::reshape),
                         lower_reshape, {"aten::reshape"}),
                 "shape"),
      std::move(permute),
      with_sizes(by_rule(row("expand", "x stretched, both ways, to a shape", {"Expand"}, infer_expand, View::kPart,
                             fold::expand, interval::expand, gradient::expand),
                         lower_expand, {"aten::expand"}),
                 "shape"),
      with_sizes(by_rule(std::move(tile), lower_tile, {"aten::repeat"}), "repeats"),
      with_axes(by_rule(row("unsqueeze", "x with axes of size 1 more", {"Unsqueeze"}, infer_unsqueeze, View::kWhole,
                            fold::view, interval::view, gradient::unsqueeze),
                        lower_reshape, {"aten::unsqueeze"}),
                {.name = "axes", .kind = AttributeKind::kIntegers, .required = true}),
      with_axes(by_rule(row("squeeze", "x without axes of size 1", {"Squeeze"}, infer_squeeze, View::kWhole, fold::view,
                            interval::view, gradient::squeeze),
                        lower_reshape, {"aten::squeeze"}),
                {"axes", AttributeKind::kIntegers}),
      by_rule(std::move(shape), lower_shape, {"aten::size"}),
  };
}

}  // namespace rannc::ir::ops
