#include "frontend/internal/rows/row_writer.h"

#include <algorithm>

namespace rannc::frontend {

using ir::Dim;
using ir::DType;
using ir::Shape;

Shape part(const Shape& shape, size_t begin, size_t end) {
  return {shape.begin() + static_cast<std::ptrdiff_t>(begin), shape.begin() + static_cast<std::ptrdiff_t>(end)};
}

Shape joined(std::initializer_list<Shape> parts) {
  Shape all;
  for (const Shape& each : parts) all.insert(all.end(), each.begin(), each.end());
  return all;
}

ValueId RowWriter::truth(ValueId mask) {
  const ValueId value = to_.map(mask);
  return good() && dtype(value) != DType::kBool ? emit("cast", {value}, {{"dtype", DType::kBool}}) : value;
}

ValueId RowWriter::any_over(ValueId mask, const std::vector<int64_t>& axes) {
  if (axes.empty() || !good()) return mask;
  const ValueId numbers = emit("cast", {mask}, {{"dtype", DType::kI64}});
  const ValueId sum = emit("sum", {numbers}, {{"axes", list(axes)}, {"keepdim", false}});
  return emit("gt", {sum, scalar(0, DType::kI64)});
}

ValueId RowWriter::mask_on(size_t number, const Axes& axes) {
  const Pick& pick = picks_[number];
  const auto known = masks_.find({number, axes});
  if (known != masks_.end()) return known->second;
  Axes all = axes;
  std::vector<int64_t> others;
  for (const size_t axis : pick.order) {
    if (std::count(axes.begin(), axes.end(), axis) > 0) continue;
    others.push_back(static_cast<int64_t>(all.size()));
    all.push_back(axis);
  }
  ValueId mask = permuted(truth(pick.mask), all);
  mask = any_over(mask, others);
  mask = emit("reshape", {mask}, {{"shape", Shape{pick.count(axes)}}});
  if (good()) masks_.emplace(std::pair(number, axes), mask);
  return mask;
}

ValueId RowWriter::permuted(ValueId value, const Axes& order) {
  if (std::is_sorted(order.begin(), order.end())) return value;
  std::vector<int64_t> dims(order.begin(), order.end());
  return emit("permute", {value}, {{"dims", list(dims)}});
}

ValueId RowWriter::reshaped(ValueId value, const Shape& to) {
  if (!good() || type(value).shape == to) return value;
  return emit("reshape", {value}, {{"shape", to}});
}

ValueId RowWriter::guarded(ValueId value, const Rows& rows, double number) {
  return good() ? guarded(value, rows, scalar(number, dtype(value))) : value;
}

ValueId RowWriter::guarded(ValueId value, const Rows& rows, ValueId other) {
  const Pick& pick = picks_[rows.pick];
  if (!good() || pick.is_all()) return value;
  const Shape shape = *type(value).shape;
  const auto axis = static_cast<size_t>(rows.at.axis);
  const Dim each = pick.count(rows.on);
  const Shape apart =
      joined({part(shape, 0, axis), {rows.at.outer, each, rows.at.inner}, part(shape, axis + 1, shape.size())});
  const bool is_one = shape[axis] == each;
  Shape wide(is_one ? shape.size() : apart.size(), Dim(1));
  wide[is_one ? axis : axis + 1] = each;
  const ValueId mask = reshaped(mask_on(rows.pick, rows.on), wide);
  const auto split = [&](ValueId of) {
    return is_one || !good() || type(of).shape->empty() ? of : reshaped(of, apart);
  };
  return reshaped(emit("where", {mask, split(value), split(other)}), shape);
}

ValueId RowWriter::widened(ValueId value, Rows& rows, const Axes& axes) {
  if (rows.on == axes || !good()) return value;
  const Pick& pick = picks_[rows.pick];
  const Shape shape = *type(value).shape;
  const auto axis = static_cast<size_t>(rows.at.axis);
  Shape narrow, wide;
  for (const size_t each : axes) {
    const bool has = std::count(rows.on.begin(), rows.on.end(), each) > 0;
    narrow.push_back(has ? pick.shape[each] : Dim(1));
    wide.push_back(pick.shape[each]);
  }
  const auto with = [&](const Shape& middle) {
    return joined(
        {part(shape, 0, axis), {rows.at.outer}, middle, {rows.at.inner}, part(shape, axis + 1, shape.size())});
  };
  Shape to = shape;
  to[axis] = rows.at.outer * pick.count(axes) * rows.at.inner;
  rows.on = axes;
  const ValueId apart = reshaped(value, with(narrow));
  return reshaped(emit("expand", {apart}, {{"shape", with(wide)}}), to);
}

}  // namespace rannc::frontend
