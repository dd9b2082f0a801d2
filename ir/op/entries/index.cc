// Operators that read or place elements by position.
#include <algorithm>

#include "ir/op/folding/fold.h"
#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/rules/interval.h"
#include "ir/op/rules/picks.h"

namespace rannc::ir::ops {

Result<void> require_integers(const OpCall& call, size_t operand) {
  if (is_integer(call.in(operand).dtype)) return {};
  return error("operand " + std::to_string(operand) + " is " + std::string(str(call.in(operand).dtype)) +
               "; indices must be integers");
}

namespace {

Diagnostic two_batches(const OpCall& call) {
  return error(std::string(short_name(call.op)) + " of " + str(*call.in(0).shape) + " by indices " +
               str(*call.in(1).shape) + " would pair samples with samples");
}

Diagnostic picks_samples(const OpCall& call, int64_t axis) {
  return error(std::string(short_name(call.op)) + " picks samples along axis " + std::to_string(axis) + " of " +
               str(*call.in(0).shape) + " by indices that are the same for every sample");
}

// Error for an axis on which only one of x and indices has samples: each sample would select the row of its own number.
Diagnostic one_batch(const OpCall& call, size_t without) {
  const std::string names[] = {"x", "indices"};
  return error(std::string(short_name(call.op)) + " of " + str(*call.in(0).shape) + " by indices " +
               str(*call.in(1).shape) + " would pair each sample with its own number: " + names[without] +
               " has no samples on the axis where " + names[1 - without] + " has them");
}

// --- gather

std::optional<Contents> contents_at(const OpCall& call) {
  const auto& data = call.in(0).contents;
  const auto& indices = call.in(1).contents;
  if (!data || !indices || call.in(0).shape->size() != 1) return std::nullopt;
  Contents out;
  for (const Dim& index : *indices) {
    if (!index.is_constant()) return std::nullopt;
    const auto n = static_cast<int64_t>(data->size());
    const int64_t at = index.constant() < 0 ? index.constant() + n : index.constant();
    if (at < 0 || at >= n) return std::nullopt;
    out.push_back((*data)[at]);
  }
  return out;
}

Result<Types> infer_gather(const OpCall& call) {
  RANNC_ASSIGN(const Shape data, shape_of(call, 0));
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), data.size()));
  RANNC_TRY(check_padding(call.attributes, data, axis));
  Shape to = gathered(data, indices, static_cast<size_t>(axis));
  BatchLayout layout = call.in(1).batch;
  if (layout.has_batch()) layout.axis += static_cast<int32_t>(axis);
  const BatchLayout& source = call.in(0).batch;
  if (source.axis == axis && !layout.has_batch()) return picks_samples(call, axis);
  if (source.has_batch() && source.axis != axis) {
    if (layout.has_batch()) return two_batches(call);
    layout = source;
    if (source.axis > axis) layout.axis += static_cast<int32_t>(indices.size()) - 1;
  }
  ValueType type = make_type(call.in(0).dtype, std::move(to), std::move(layout));
  set_contents(type, contents_at(call));
  return Types{std::move(type)};
}

}  // namespace

Shape gathered(const Shape& data, const Shape& indices, size_t axis) {
  const auto at = data.begin() + static_cast<std::ptrdiff_t>(axis);
  Shape to(data.begin(), at);
  to.insert(to.end(), indices.begin(), indices.end());
  to.insert(to.end(), at + 1, data.end());
  return to;
}

aten::Value from_start(Calls& calls, aten::Value index, DType dtype, const Dim& extent) {
  if (dtype != DType::kI64) index = calls("aten::to.dtype", {index, DType::kI64});
  const aten::Made below = calls("aten::lt.Scalar", {index, aten::Scalar{Dim(0)}});
  const aten::Made moved = calls("aten::add.Scalar", {index, aten::Scalar{extent}});
  return calls("aten::where.self", {below, moved, index});
}

namespace {

size_t axis_of(const LowerCall& call) { return counted_axis(call.attributes, shape_of(*call.inputs[0]).size()); }

Result<aten::Lowering> lower_gather(const LowerCall& call) {
  const Shape& data = shape_of(*call.inputs[0]);
  const size_t axis = axis_of(call), rank = shape_of(*call.inputs[1]).size();
  Calls calls;
  const aten::Value index = from_start(calls, aten::Operand{1}, call.inputs[1]->dtype, data[axis]);
  if (axis == 0 && data.size() == 2)
    return std::move(calls).with(
        {calls("aten::embedding", {aten::Operand{0}, index, padding_index(call.attributes).value_or(-1)})});
  const aten::Value flat = rank == 1 ? index : calls("aten::reshape", {index, Shape{Dim(-1)}});
  aten::Value picked = calls("aten::index_select", {aten::Operand{0}, axis, flat});
  if (rank != 1) picked = calls("aten::reshape", {picked, shape_of(*call.outputs[0])});
  return std::move(calls).with({picked});
}

// --- gather_nd

}  // namespace

Result<Shape> gathered_nd(const OpCall& call, const Shape& data, const Shape& indices, int64_t batch_dims) {
  if (indices.empty() || !indices.back().is_constant()) {
    return error("indices " + str(indices) + " need a last axis of known extent");
  }
  if (batch_dims < 0 || batch_dims >= static_cast<int64_t>(indices.size()) ||
      batch_dims + indices.back().constant() > static_cast<int64_t>(data.size())) {
    return error("indices " + str(indices) + " with batch_dims " + std::to_string(batch_dims) + " reach beyond " +
                 str(data));
  }
  for (int64_t i = 0; i < batch_dims; ++i) {
    if (!taken_for_equal(call, data[i], indices[i]))
      return error("axis " + std::to_string(i) + " differs: " + str(data) + ", " + str(indices));
  }
  Shape to(indices.begin(), indices.end() - 1);
  to.insert(to.end(), data.begin() + batch_dims + indices.back().constant(), data.end());
  return to;
}

PickedParts parts_of(const Shape& data, const Shape& indices, int64_t batch_dims) {
  const auto begin = data.begin() + batch_dims, end = begin + indices.back().constant();
  return {element_count(Shape(data.begin(), begin)), element_count(Shape(begin, end)),
          element_count(Shape(end, data.end())), element_count(Shape(indices.begin() + batch_dims, indices.end() - 1))};
}

namespace {

// Moves indices outside 0…extent-1 so far below 0 that no flat index with them is valid. Otherwise they would pick from
// another row of the axis before.
aten::Value outside_all(Calls& calls, aten::Value index, const Dim& extent, const Dim& all) {
  const aten::Made below = calls("aten::lt.Scalar", {index, aten::Scalar{Dim(0)}});
  const aten::Made beyond = calls("aten::ge.Scalar", {index, aten::Scalar{extent}});
  const aten::Made invalid = calls("aten::logical_or", {below, beyond});
  return calls("aten::where.ScalarSelf", {invalid, aten::Scalar{Dim(0) - all}, index});
}

}  // namespace

Result<FlatPicks> flat_picks(Calls& calls, const LowerCall& call, const Shape& data) {
  const Shape& indices = shape_of(*call.inputs[1]);
  if (indices.back() == Dim(0)) return error("gather_nd with an empty index");
  const int64_t batch_dims = call.attributes.declares("batch_dims") ? call.attributes.integer("batch_dims") : 0;
  const PickedParts parts = parts_of(data, indices, batch_dims);
  const bool is_alone = batch_dims == 0 && indices.back() == Dim(1);  // ATen checks a flat index of one axis
  std::optional<aten::Value> index;
  Dim stride = 1;
  for (int64_t d = indices.back().constant(); d-- > 0; stride = stride * data[batch_dims + d]) {
    aten::Value part = calls("aten::select.int", {aten::Operand{1}, indices.size() - 1, d});
    const Dim& extent = data[batch_dims + d];
    part = from_start(calls, part, call.inputs[1]->dtype, extent);
    if (!is_alone) part = outside_all(calls, part, extent, parts.groups * parts.picked);
    part = calls("aten::mul.Scalar", {part, aten::Scalar{stride}});
    index = index ? calls("aten::add.Tensor", {*index, part}) : part;
  }
  if (batch_dims > 0) {
    const aten::Value grouped = calls("aten::reshape", {*index, Shape{parts.groups, parts.rows}});
    const aten::Value group =
        calls("aten::arange", {aten::Scalar{parts.groups}, {"dtype", DType::kI64}, {"device", aten::Device{}}});
    const aten::Value first =
        calls("aten::mul.Scalar", {calls("aten::unsqueeze", {group, 1}), aten::Scalar{parts.picked}});
    index = calls("aten::add.Tensor", {grouped, first});
  }
  return FlatPicks{calls("aten::reshape", {*index, Shape{Dim(-1)}}), parts};
}

namespace {

Result<Types> infer_gather_nd(const OpCall& call) {
  RANNC_ASSIGN(const Shape data, shape_of(call, 0));
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  const int64_t batch_dims = call.attributes.integer("batch_dims");
  RANNC_ASSIGN(Shape to, gathered_nd(call, data, indices, batch_dims));
  const int64_t picked_end = batch_dims + indices.back().constant();
  BatchLayout layout = call.in(1).batch;
  RANNC_TRY(keep_samples_apart(call, 1, static_cast<int64_t>(indices.size()) - 1));
  const BatchLayout& source = call.in(0).batch;
  if (source.has_batch() && source.axis < picked_end) {
    const bool paired = source.axis < batch_dims;
    if (!layout.has_batch()) return picks_samples(call, source.axis);
    if (paired && !(layout == source)) return two_batches(call);
  } else if (source.has_batch()) {
    if (layout.has_batch()) return two_batches(call);
    layout = source;
    layout.axis += static_cast<int32_t>(static_cast<int64_t>(indices.size()) - 1 - picked_end);
  }
  return Types{make_type(call.in(0).dtype, std::move(to), std::move(layout))};
}

// Flattens the index into the picked axes, then calls index_select once on x viewed as [batch…, picked, rest…].
Result<aten::Lowering> lower_gather_nd(const LowerCall& call) {
  Calls calls;
  RANNC_ASSIGN(const FlatPicks flat, flat_picks(calls, call, shape_of(*call.inputs[0])));
  const Shape rows = {flat.parts.groups * flat.parts.picked, flat.parts.rest};
  const aten::Value table = calls("aten::reshape", {aten::Operand{0}, rows});
  const aten::Value found = calls("aten::index_select", {table, 0, flat.index});
  return std::move(calls).with({calls("aten::reshape", {found, shape_of(*call.outputs[0])})});
}

// --- gather_elements

Result<Types> infer_gather_elements(const OpCall& call) {
  RANNC_ASSIGN(const Shape data, shape_of(call, 0));
  RANNC_ASSIGN(Shape indices, shape_of(call, 1));
  RANNC_TRY(require_integers(call, 1));
  if (data.size() != indices.size()) return error("ranks differ: " + str(data) + " and " + str(indices));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), data.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  for (size_t i = 0; i < data.size(); ++i) {
    const bool beyond = data[i].is_constant() && indices[i].is_constant() && indices[i].constant() > data[i].constant();
    if (static_cast<int64_t>(i) == axis || !beyond) continue;
    return error("indices " + str(indices) + " reach beyond axis " + std::to_string(i) + " of " + str(data));
  }
  const BatchLayout &layout = call.in(0).batch, &picked = call.in(1).batch;
  const bool from_table = !layout.has_batch() && picked.axis == axis;
  if (!from_table && layout.has_batch() != picked.has_batch()) return one_batch(call, layout.has_batch() ? 1 : 0);
  if (layout.has_batch() && !(layout == picked)) return two_batches(call);
  return Types{make_type(call.in(0).dtype, std::move(indices), picked)};
}

Result<aten::Lowering> lower_gather_elements(const LowerCall& call) {
  const size_t axis = axis_of(call);
  Calls calls;
  const aten::Value index = from_start(calls, aten::Operand{1}, call.inputs[1]->dtype, shape_of(*call.inputs[0])[axis]);
  return std::move(calls).with({calls("aten::gather", {aten::Operand{0}, axis, index})});
}

// --- cumsum, trilu, one_hot

Result<Types> infer_cumsum(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  if (call.in(0).dtype == DType::kBool) return error("operand 0 is bool; it must be a number");
  ValueType type = make_type(call.in(0).dtype, shape, call.in(0).batch);
  if (call.in(0).contents && !call.attributes.flag("exclusive") && !call.attributes.flag("reverse")) {
    Contents sums = *call.in(0).contents;
    for (size_t i = 1; i < sums.size(); ++i) sums[i] = plus(sums[i - 1], sums[i]);
    set_contents(type, std::move(sums));
  }
  return Types{std::move(type)};
}

Result<aten::Lowering> lower_cumsum(const LowerCall& call) {
  const size_t axis = axis_of(call);
  const Shape axes = {Dim(static_cast<int64_t>(axis))};
  const bool reverse = call.attributes.flag("reverse");
  Calls calls;
  aten::Value value = aten::Operand{0};
  if (reverse) value = calls("aten::flip", {value, axes});
  aten::Value sum = calls("aten::cumsum", {value, axis, {"dtype", call.inputs[0]->dtype}});
  if (call.attributes.flag("exclusive")) sum = calls("aten::sub.Tensor", {sum, value});
  if (reverse) sum = calls("aten::flip", {sum, axes});
  return std::move(calls).with({sum});
}

Result<Types> infer_trilu(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank < 2) return error("trilu needs rank 2 or more, found " + str(shape));
  RANNC_TRY(keep_samples_apart(call, 0, rank - 1));
  RANNC_TRY(keep_samples_apart(call, 0, rank - 2));
  return Types{make_type(call.in(0).dtype, shape, call.in(0).batch)};
}

Result<aten::Lowering> lower_trilu(const LowerCall& call) {
  return one_call(call.attributes.flag("upper") ? "aten::triu" : "aten::tril",
                  {aten::Operand{0}, call.attributes.integer("diagonal")});
}

Result<Types> infer_one_hot(const OpCall& call) {
  RANNC_ASSIGN(Shape shape, shape_of(call, 0));
  RANNC_TRY(require_integers(call, 0));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size() + 1));
  const int64_t depth = call.attributes.integer("depth");
  if (depth <= 0) return error("depth is " + std::to_string(depth));
  shape.insert(shape.begin() + axis, Dim(depth));
  BatchLayout layout = call.in(0).batch;
  if (layout.has_batch() && layout.axis >= axis) ++layout.axis;
  return Types{make_type(DType::kI64, std::move(shape), std::move(layout))};
}

// Indices outside 0…depth-1 give zeros, as in ONNX. ATen's one_hot fails for them.
Result<aten::Lowering> lower_one_hot(const LowerCall& call) {
  const int64_t depth = call.attributes.integer("depth"), axis = call.attributes.integer("axis");
  Calls calls;
  const aten::Value index = from_start(calls, aten::Operand{0}, call.inputs[0]->dtype, depth);
  const aten::Value classes =
      calls("aten::arange", {aten::Scalar{Dim(depth)}, {"dtype", DType::kI64}, {"device", aten::Device{}}});
  const aten::Value equal = calls("aten::eq.Tensor", {calls("aten::unsqueeze", {index, -1}), classes});
  aten::Value hot = calls("aten::to.dtype", {equal, DType::kI64});
  if (axis != -1) hot = calls("aten::movedim.int", {hot, -1, axis});
  return std::move(calls).with({hot});
}

// --- which component of the indices picks along an axis

std::optional<int64_t> gather_picks(const OpCall& call, int64_t axis) {
  const auto picked = checked_axis(call.attributes.integer("axis"), call.in(0).shape->size());
  return picked.ok() && *picked == axis ? std::optional<int64_t>(-1) : std::nullopt;
}
std::optional<int64_t> gather_nd_picks(const OpCall& call, int64_t axis) {
  const int64_t component = axis - call.attributes.integer("batch_dims");
  const bool there = component >= 0 && component < call.in(1).shape->back().constant();
  return there ? std::optional(component) : std::nullopt;
}

// --- tape: indices are kept as i64

constexpr int64_t kIndexBytes = 8;

Dim index_bytes(const TapeCall& call) { return element_count(shape_of(*call.inputs[1])) * Dim(kIndexBytes); }

// Keeps one flat index per tuple.
TapeUse gather_nd_tape(const TapeCall& call) {
  const Shape& indices = shape_of(*call.inputs[1]);
  return {.own_bytes = element_count(Shape(indices.begin(), indices.end() - 1)) * Dim(kIndexBytes)};
}
TapeUse gather_elements_tape(const TapeCall& call) {
  return {.keeps = {kept_operand(0)}, .own_bytes = index_bytes(call)};
}

}  // namespace

std::vector<OpInfo> index_ops() {
  using Kind = AttributeKind;
  const AttributeInfo axis{"axis", Kind::kInteger, Dim(0)};
  return {
      {.name = "core.gather",
       .summary = "x at indices of an axis, which count from the end where negative; row `padding_index` takes no "
                  "gradient",
       .onnx = {"Gather"},
       .aten = {"aten::embedding", "aten::index_select"},
       .operands = {{"x", Role::kWeight}, {"indices", Role::kIndex}},
       .attributes = {axis, {"padding_index", Kind::kInteger}},
       .infer = infer_gather,
       .linear = always<Linear::kFirst>,
       .picks = gather_picks,
       .lower = lower_gather,
       .fold = fold::gather,
       .gradient = gradient::gather},
      {.name = "core.gather_nd",
       .summary = "x at tuples of indices, the last axis of `indices`",
       .onnx = {"GatherND"},
       .aten = {"aten::index"},
       .operands = {{"x"}, {"indices", Role::kIndex}},
       .attributes = {{"batch_dims", Kind::kInteger, Dim(0)}},
       .infer = infer_gather_nd,
       .linear = always<Linear::kFirst>,
       .picks = gather_nd_picks,
       .lower = lower_gather_nd,
       .fold = fold::gather_nd,
       .gradient = gradient::gather_nd,
       .tape = TapeInfo{.rule = gather_nd_tape}},
      {.name = "core.gather_elements",
       .summary = "x with the position on one axis replaced by an index of the same place",
       .onnx = {"GatherElements"},
       .aten = {"aten::gather"},
       .operands = {{"x"}, {"indices", Role::kIndex}},
       .attributes = {axis},
       .infer = infer_gather_elements,
       .linear = always<Linear::kFirst>,
       .lower = lower_gather_elements,
       .fold = fold::gather_elements,
       .gradient = gradient::gather_elements,
       .tape = TapeInfo{.rule = gather_elements_tape}},
      {.name = "core.cumsum",
       .summary = "sums of what stands before, along an axis",
       .onnx = {"CumSum"},
       .aten = {"aten::cumsum"},
       .operands = {{"x"}},
       .attributes = {axis, {"exclusive", Kind::kFlag, false}, {"reverse", Kind::kFlag, false}},
       .autocast = Autocast::kFloat32,
       .infer = infer_cumsum,
       .linear = always<Linear::kFirst>,
       .lower = lower_cumsum,
       .fold = fold::cumsum,
       .gradient = gradient::cumsum},
      {.name = "core.trilu",
       .summary = "the upper or lower triangle of each matrix, zeros elsewhere",
       .onnx = {"Trilu"},
       .aten = {"aten::triu", "aten::tril"},
       .operands = {{"x"}},
       .attributes = {{"upper", Kind::kFlag, true}, {"diagonal", Kind::kInteger, Dim(0)}},
       .infer = infer_trilu,
       .linear = always<Linear::kFirst>,
       .lower = lower_trilu,
       .fold = fold::trilu,
       .gradient = gradient::trilu},
      {.name = "core.one_hot",
       .summary = "1 at each index of a new axis, 0 elsewhere; zeros alone for an index outside",
       .onnx = {"OneHot"},
       .aten = {"aten::one_hot"},
       .operands = {{"indices", Role::kIndex}},
       .attributes = {{.name = "depth", .kind = Kind::kInteger, .required = true}, {"axis", Kind::kInteger, Dim(-1)}},
       .infer = infer_one_hot,
       .lower = lower_one_hot,
       .fold = fold::one_hot,
       .interval = interval::one_hot},
  };
}

}  // namespace rannc::ir::ops
