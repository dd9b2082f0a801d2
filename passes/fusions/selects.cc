// Elements picked along an axis by a constant: parts, which share memory with what they are of.
// Example: `tests/passes/golden/fuse_selects.rir`.
#include <cmath>

#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kPlace{1};

struct Select {
  Attributes slice;
  std::optional<Attributes> squeeze;  ///< where the axis goes
};

/// Nothing where a place is beyond the end, or counted from an end that is not known.
std::optional<Select> select(const Match& match) {
  const Graph& graph = match.graph();
  const auto &shape = graph.type(match[kX]).shape, &place = graph.type(match[kPlace]).shape;
  if (!shape || !place) return std::nullopt;
  const OpAttributes attributes(graph.op(match.task(kResult)), match.attributes(kResult));
  const auto rank = static_cast<int64_t>(shape->size());
  const int64_t axis = from_front(attributes.integer("axis"), shape->size());
  if (axis < 0 || axis >= rank) return std::nullopt;
  const Dim& extent = (*shape)[static_cast<size_t>(axis)];
  auto at = static_cast<int64_t>(match.number(kPlace));
  if (at < 0 && extent.is_constant()) at += extent.constant();
  if (at < 0 || (extent.is_constant() && at >= extent.constant())) return std::nullopt;
  Select made{{{"axes", Shape{Dim(axis)}}, {"starts", Shape{Dim(at)}}, {"ends", Shape{Dim(at + 1)}}}, std::nullopt};
  if (place->empty()) made.squeeze = Attributes{{"axes", Shape{Dim(axis)}}};
  return made;
}

/// Rows of a parameter stay rows: their gradient is of those rows alone.
bool is_select(const Match& match) {
  const Graph& graph = match.graph();
  const ValueType& x = graph.type(match[kX]);
  if (!is_float(x.dtype) || graph.value(match[kX]).kind == ValueKind::kParameter) return false;
  if (match.attributes(kResult).has("padding_index")) return false;
  const auto made = select(match);
  if (!made) return false;
  if (!made->squeeze) return makes_result(match, "slice", {&x}, made->slice);
  const auto part = types_of({core("slice"), std::vector{&x}, made->slice, graph.batch_symbol()});
  return part.ok() && makes_result(match, "squeeze", {&part->front()}, *made->squeeze);
}

std::vector<ValueId> build(const Match& match, Builder& make) {
  const Select made = *select(match);
  if (!made.squeeze) return make.result("slice", {make[kX]}, made.slice);
  return make.result("squeeze", {make.emit("slice", {make[kX]}, made.slice)}, *made.squeeze);
}

}  // namespace

std::vector<Rewrite> selects() {
  const Pattern picked = op("gather", any(kX), constant(kPlace));
  return {{"select", picked.as(kResult).where(is_select), build}};
}

}  // namespace rannc::passes::fusion
