/// Translates operators that pick rows by a mask or write them back.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "frontend/internal/rows/classes.h"
#include "frontend/internal/rows/picked_rows.h"
#include "frontend/torchscript/internal/indexed_axes.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

Shape ones(size_t count) { return Shape(count, Dim(1)); }

/// Places as tuples, one per element.
ValueId tuples(Call& call, ValueId mask) {
  return call.emit("permute", {call.picked_places(mask)}, {{"dims", Shape{1, 0}}});
}

void give_columns(Call& call, const std::string& name) {
  std::vector<Item> columns;
  for (const ValueId each : picked_columns(call, call.tensor(name)))
    columns.emplace_back(std::make_shared<Tensor>(each));
  if (call.good()) call.give(list_of(std::move(columns)));
}

void nonzero(Call& call) {
  const ValueId made = tuples(call, call.tensor("self"));
  if (call.good()) call.give(made);
}

void nonzero_numpy(Call& call) { give_columns(call, "self"); }

/// A mask in the shape of a tensor.
ValueId mask_like(Call& call, ValueId x) {
  const ValueId mask = call.tensor("mask");
  const Shape *const shape = call.shape(x), *const given = call.shape(mask);
  if (!shape || !given || *shape == *given) return mask;
  return call.emit("expand", {mask}, {{"shape", *shape}});
}

void masked_select(Call& call) {
  const ValueId x = call.tensor("self"), places = tuples(call, mask_like(call, x));
  call.result("gather_nd", {x, places}, {{"batch_dims", Dim(0)}});
}

/// Writes the elements of a source in order. Only elements that the same mask picked are those of the same row.
void masked_scatter(Call& call) {
  const ValueId x = call.tensor("self"), source = call.tensor("source");
  if (!call.good()) return;
  if (!is_picked(call.type(source))) return call.use_dispatcher();
  const ValueId places = tuples(call, mask_like(call, x));
  const ValueId flat = call.emit("reshape", {call.cast(source, call.dtype(x))}, {{"shape", Shape{-1}}});
  call.result("scatter_nd", {x, places, flat}, {{"reduction", std::string("none")}});
}

/// Writes rows along one axis at places that a mask picks.
template <const char* reduction>
void index_rows(Call& call) {
  const ValueId x = call.tensor("self"), index = call.tensor("index");
  const int64_t axis = call.axis(call.integer("dim"), call.rank(x));
  if (!call.good()) return;
  if (!is_picked(call.type(index))) return call.use_dispatcher();
  ValueId from = call.cast(call.tensor("source"), call.dtype(x));
  if (call.has("alpha") && call.number("alpha") != 1)
    from = call.emit("mul", {from, call.scalar(call.number("alpha"), call.dtype(x))});
  const Shape* const given = call.shape(from);
  const Shape* const places = call.shape(index);
  if (!given || !places || !call.good()) return;
  const Shape to = *given;
  Shape column = ones(to.size());
  column[static_cast<size_t>(axis)] = places->front();
  const ValueId wide = call.emit("expand", {call.emit("reshape", {index}, {{"shape", column}})}, {{"shape", to}});
  call.result("scatter_elements", {x, wide, from}, {{"axis", Dim(axis)}, {"reduction", std::string(reduction)}});
}
constexpr char kWritten[] = "none", kAdded[] = "add";

/// x[mask] = value for a value that has no rows: the same for each row that the mask picks.
void fill_rows(Call& call, ValueId x, const std::vector<IndexedAxis>& axes, ValueId value) {
  const Shape rest_of = *call.shape(x);
  const size_t end = axes.front().axis + axes.size();
  Shape wide = *call.shape(axes.front().mask);
  const Shape behind = ones(rest_of.size() - end);
  wide.insert(wide.end(), behind.begin(), behind.end());
  const ValueId mask = call.emit("reshape", {call.cast(axes.front().mask, DType::kBool)}, {{"shape", wide}});
  Shape given = *call.shape(value);
  if (given.size() == rest_of.size() - axes.size() + 1 && given[axes.front().axis] == Dim(1)) {
    for (size_t i = 1; i < axes.size(); ++i)
      given.insert(given.begin() + static_cast<std::ptrdiff_t>(axes.front().axis), Dim(1));
    value = call.emit("reshape", {value}, {{"shape", given}});
  } else if (given.size() > behind.size()) {
    return call.fail(
        fmt::format("{}: values {} for the rows that a mask picks are neither computed from these rows nor "
                    "the same for all of them",
                    call.schema(), ir::str(given)));
  }
  if (call.flag("accumulate")) value = call.emit("add", {x, value});
  call.result("where", {mask, value, x});
}

/// Values in the shape of the elements that are written, with the axes of the places in front.
ValueId placed_first(Call& call, ValueId value, const std::vector<IndexedAxis>& axes, const Shape& common,
                     const Shape& others) {
  // Adjacent axes are replaced in place, others by leading axes.
  const size_t first = axes.front().axis;
  const auto lead = static_cast<std::ptrdiff_t>(axes.back().axis - first + 1 == axes.size() ? first : 0);
  Shape to = others;
  to.insert(to.begin() + lead, common.begin(), common.end());
  if (!call.good()) return {};
  if (!(*call.shape(value) == to)) value = call.emit("expand", {value}, {{"shape", to}});
  if (lead == 0) return value;
  std::vector<int64_t> dims(to.size());
  std::iota(dims.begin(), dims.end(), 0);
  std::rotate(dims.begin(), dims.begin() + lead, dims.begin() + lead + static_cast<std::ptrdiff_t>(common.size()));
  return call.emit("permute", {value}, {{"dims", frontend::list(dims)}});
}

/// Writes values at places on some axes.
void write_places(Call& call, ValueId x, const std::vector<IndexedAxis>& axes, ValueId value) {
  const Shape shape = *call.shape(x), common = *call.shape(axes.front().places);
  std::vector<int64_t> order, back(shape.size());
  for (const IndexedAxis& each : axes) order.push_back(static_cast<int64_t>(each.axis));
  Shape others;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (std::find(order.begin(), order.end(), static_cast<int64_t>(axis)) != order.end()) continue;
    order.push_back(static_cast<int64_t>(axis));
    others.push_back(shape[axis]);
  }
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  std::vector<ValueId> columns;
  for (const IndexedAxis& each : axes)
    columns.push_back(call.emit("unsqueeze", {each.places}, {{"axes", Shape{static_cast<int64_t>(common.size())}}}));
  const ValueId places = call.emit("concat", columns, {{"axis", Dim(static_cast<int64_t>(common.size()))}});
  value = placed_first(call, value, axes, common, others);
  const ir::Attributes attributes = {{"reduction", std::string(call.flag("accumulate") ? kAdded : kWritten)}};
  if (std::is_sorted(order.begin(), order.end())) return call.result("scatter_nd", {x, places, value}, attributes);
  const ValueId turned = call.emit("permute", {x}, {{"dims", frontend::list(order)}});
  const ValueId written = call.emit("scatter_nd", {turned, places, value}, attributes);
  call.result("permute", {written}, {{"dims", frontend::list(back)}});
}

void index_put(Call& call) {
  const Sequence* const list = call.item("indices").sequence();
  const ValueId x = call.tensor("self");
  if (!list || !call.shape(x)) return call.use_dispatcher();
  const auto picks = [&](const Item& each) {
    if (each.is_none()) return false;
    const ValueId value = call.tensor(each, "indices");
    return call.good() && (is_mask(call, value) || is_picked(call.type(value)));
  };
  if (std::none_of(list->elements.begin(), list->elements.end(), picks)) return call.use_dispatcher();
  ValueId value = call.cast(call.tensor("values"), call.dtype(x));
  const auto axes = indexed_axes(call, *list);
  if (!axes || !call.good()) return;
  if (axes->size() == 1 && !call.flag("accumulate") && puts_back(call, axes->front().places, value))
    return call.give(add_unsorted_places(call.graph(), axes->front().places, call.stem(), call.where()));
  const bool by_one_mask =
      axes->front().mask.valid() &&
      std::all_of(axes->begin(), axes->end(), [&](const IndexedAxis& each) { return each.mask == axes->front().mask; });
  if (by_one_mask && !is_picked(call.type(value))) return fill_rows(call, x, *axes, value);
  write_places(call, x, *axes, value);
}

}  // namespace

bool is_mask(const Call& call, ValueId index) {
  return call.dtype(index) == DType::kBool || call.dtype(index) == DType::kU8;
}

std::vector<ValueId> picked_columns(Call& call, ValueId mask) {
  const ValueId places = call.picked_places(mask);
  if (!call.good()) return {};
  std::vector<ValueId> columns;
  for (int64_t i = 0; i < call.rank(mask); ++i) {
    const ValueId row =
        call.emit("slice", {places}, {{"axes", Shape{0}}, {"starts", Shape{i}}, {"ends", Shape{i + 1}}});
    columns.push_back(call.emit("squeeze", {row}, {{"axes", Shape{0}}}));
  }
  return columns;
}

std::optional<std::vector<IndexedAxis>> indexed_axes(Call& call, const Sequence& list) {
  std::vector<IndexedAxis> axes;
  size_t axis = 0;
  for (const Item& each : list.elements) {
    if (each.is_none()) {
      ++axis;
      continue;
    }
    const ValueId value = call.tensor(each, "indices");
    if (!call.good()) return std::nullopt;
    if (!is_mask(call, value)) {
      axes.push_back({axis++, value, {}});
      continue;
    }
    for (const ValueId column : picked_columns(call, value)) axes.push_back({axis++, column, value});
    if (!call.good()) return std::nullopt;
  }
  return axes;
}

void where_true(Call& call) { give_columns(call, "condition"); }

std::span<const Translator> row_translators() {
  static constexpr Translator kTable[] = {
      {"nonzero", nonzero},
      {"argwhere", nonzero},
      {"nonzero_numpy", nonzero_numpy},
      {"masked_select", masked_select},
      {"masked_scatter", masked_scatter},
      {"index_add", index_rows<kAdded>},
      {"index_copy", index_rows<kWritten>},
      {"index_put", index_put},
      {"_unsafe_index_put", index_put},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
