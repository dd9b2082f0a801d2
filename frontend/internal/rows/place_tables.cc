#include "frontend/internal/rows/place_tables.h"

#include <algorithm>

#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::frontend {

namespace {

using ir::Dim;
using ir::Graph;
using ir::Shape;
using Tables = std::map<ValueId, PlaceTable>;
using Column = PlaceTable::Column;

constexpr int64_t kNone = -1;

/// An axis counted from the front.
int64_t counted(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }

std::optional<Dim> number(const Graph& graph, ValueId value) {
  const auto& known = graph.type(value).contents;
  return known && known->size() == 1 ? std::optional(known->front()) : std::nullopt;
}

Column scaled(const Column& column, const Dim& by) {
  Column made = column;
  for (Dim& factor : made.factors) factor = factor * by;
  made.offset = made.offset * by;
  return made;
}

Column summed(const Column& a, const Column& b) {
  Column made = a;
  for (size_t i = 0; i < made.factors.size(); ++i) made.factors[i] = made.factors[i] + b.factors[i];
  made.offset = made.offset + b.offset;
  return made;
}

/// A task with one such operand, or several.
class Arranged {
 public:
  Arranged(const Graph& graph, TaskId task, const Tables& tables)
      : graph_(graph), task_(task), tables_(tables), attributes_(graph.attributes(task)) {}

  std::optional<std::vector<PlaceTable>> run() const {
    static const ir::Ops kSame = {"identity", "cast"}, kViews = {"squeeze", "unsqueeze", "reshape"},
                         kSums = {"add", "sub"}, kRounding = {"abs", "floor", "sign"};
    const ir::OpInfo& op = graph_.op(task_);
    if (kSame.contains(op)) return given(converted());
    if (kRounding.contains(op)) return given(on_the_way(0));
    if (kViews.contains(op)) return given(viewed());
    if (is(op, "permute")) return given(permuted());
    if (is(op, "expand")) return given(expanded());
    if (is(op, "slice")) return given(sliced());
    if (is(op, "split")) return split();
    if (is(op, "concat")) return given(joined());
    if (is(op, "gather")) return given(selected());
    if (kSums.contains(op)) return given(added(is(op, "add") ? 1 : -1));
    if (is(op, "mul")) return given(multiplied());
    if (is(op, "div"))
      return given(ir::is_integer(graph_.type(output()).dtype) ? divided(0, operand(1)) : on_the_way(0));
    return std::nullopt;
  }

 private:
  static bool is(const ir::OpInfo& op, const char* name) { return &op == &ir::core(name); }
  ValueId operand(size_t i) const { return graph_.inputs(task_)[i]; }
  ValueId output() const { return graph_.outputs(task_)[0]; }
  const Shape& shape(ValueId value) const { return *graph_.type(value).shape; }
  std::optional<PlaceTable> table(size_t i) const {
    const auto found = tables_.find(operand(i));
    return found == tables_.end() ? std::nullopt : std::optional(found->second);
  }
  static std::optional<std::vector<PlaceTable>> given(std::optional<PlaceTable> made) {
    return made ? std::optional(std::vector{*std::move(made)}) : std::nullopt;
  }

  /// Numbers that a later cast makes integer places again.
  std::optional<PlaceTable> on_the_way(size_t i) const {
    auto made = table(i);
    if (made) made->columns.clear();
    return made;
  }

  /// ONNX divides integers as floats: sign(q) * floor(abs(q)).
  std::optional<PlaceTable> converted() const {
    constexpr ir::Capture kPlaces{0}, kBy{1}, kQuotient{2};
    static const ir::Pattern kOf = ir::op("div", ir::op("cast", ir::any(kPlaces)), ir::any(kBy)).as(kQuotient);
    static const ir::Pattern kTruncated = ir::op(
        "cast",
        ir::commutative(ir::op("mul", ir::op("floor", ir::op("abs", kOf)), ir::op("sign", ir::same(kQuotient)))));
    const auto from = table(0);
    if (!ir::is_integer(graph_.type(output()).dtype)) return on_the_way(0);
    if (!from || !from->columns.empty()) return from;
    const auto found = ir::match(graph_, output(), kTruncated);
    const auto places = found ? tables_.find((*found)[kPlaces]) : tables_.end();
    return places == tables_.end() ? std::nullopt : divided(places->second, scalar((*found)[kBy]));
  }

  std::optional<Dim> scalar(ValueId value) const {
    if (const auto known = number(graph_, value)) return known;
    const auto constant = ir::scalar_constant(graph_, value);
    const auto whole = constant ? static_cast<int64_t>(*constant) : 0;
    return constant && static_cast<double>(whole) == *constant ? std::optional(Dim(whole)) : std::nullopt;
  }

  std::optional<PlaceTable> divided(size_t i, ValueId by) const {
    const auto from = table(i);
    return from ? divided(*from, scalar(by)) : std::nullopt;
  }

  /// Drops the axes whose places add up to less than the divisor.
  static std::optional<PlaceTable> divided(PlaceTable from, const std::optional<Dim>& by) {
    if (!by || !by->is_constant() || by->constant() < 1) return std::nullopt;
    for (Column& column : from.columns) {
      Dim rest = 0;
      for (size_t i = 0; i < column.factors.size(); ++i) {
        Dim& factor = column.factors[i];
        if (const auto exact = ir::exact_div(factor, *by)) {
          factor = *exact;
        } else {
          rest = rest + factor * (from.shape[i] - Dim(1));
          factor = 0;
        }
      }
      if (!(column.offset == Dim(0)) || !rest.is_constant() || rest.constant() >= by->constant()) return std::nullopt;
    }
    return from;
  }

  /// Axes of extent 1 come and go. Others keep their order.
  std::optional<PlaceTable> viewed() const {
    auto made = table(0);
    if (!made) return std::nullopt;
    const auto wide = [&](const Shape& shape) {
      std::vector<size_t> axes;
      for (size_t i = 0; i < shape.size(); ++i) {
        if (!(shape[i] == Dim(1))) axes.push_back(i);
      }
      return axes;
    };
    const Shape &from = shape(operand(0)), &to = shape(output());
    const auto before = wide(from), after = wide(to);
    if (before.size() != after.size()) return std::nullopt;
    const int64_t row = made->row_axis, column = made->column_axis;
    for (size_t i = 0; i < before.size(); ++i) {
      if (!(from[before[i]] == to[after[i]])) return std::nullopt;
      if (static_cast<int64_t>(before[i]) == row) made->row_axis = static_cast<int64_t>(after[i]);
      if (static_cast<int64_t>(before[i]) == column) made->column_axis = static_cast<int64_t>(after[i]);
    }
    return made;
  }

  std::optional<PlaceTable> permuted() const {
    auto made = table(0);
    const std::vector<int64_t> dims = attributes_.integers("dims");
    const auto moved = [&](int64_t axis) {
      return axis < 0 ? axis : std::find(dims.begin(), dims.end(), axis) - dims.begin();
    };
    made->row_axis = moved(made->row_axis);
    made->column_axis = moved(made->column_axis);
    return made;
  }

  std::optional<PlaceTable> expanded() const {
    auto made = table(0);
    if (!made) return std::nullopt;
    const auto more = static_cast<int64_t>(shape(output()).size() - shape(operand(0)).size());
    made->row_axis += more;
    if (made->column_axis != kNone) made->column_axis += more;
    const bool keeps = shape(output())[static_cast<size_t>(made->row_axis)] ==
                       shape(operand(0))[static_cast<size_t>(made->row_axis - more)];
    return keeps ? made : std::nullopt;
  }

  /// Only some of the columns.
  static PlaceTable columns(PlaceTable from, int64_t begin, int64_t end) {
    from.columns = {from.columns.begin() + begin, from.columns.begin() + end};
    if (from.columns.size() == 1) from.column_axis = kNone;
    return from;
  }

  std::optional<PlaceTable> sliced() const {
    auto made = table(0);
    const auto* const starts = attributes_.list("starts");
    const auto* const ends = attributes_.list("ends");
    if (!made || !starts || !ends || attributes_.has("steps")) return std::nullopt;
    std::vector<int64_t> axes = attributes_.integers("axes");
    if (axes.empty()) {
      for (size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<int64_t>(i));
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t axis = counted(axes[i], shape(operand(0)).size());
      const Dim extent = shape(operand(0))[static_cast<size_t>(axis)];
      if (shape(output())[static_cast<size_t>(axis)] == extent) continue;
      if (axis != made->column_axis || !(*starts)[i].is_constant() || !(*ends)[i].is_constant()) return std::nullopt;
      const auto count = static_cast<int64_t>(made->columns.size());
      const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + count : at, 0, count); };
      const int64_t begin = bound((*starts)[i].constant()), end = bound((*ends)[i].constant());
      if (begin >= end) return std::nullopt;
      made = columns(*std::move(made), begin, end);
    }
    return made;
  }

  std::optional<std::vector<PlaceTable>> split() const {
    const auto from = table(0);
    const auto* const sizes = attributes_.list("sizes");
    const int64_t axis = counted(attributes_.integer("axis"), shape(operand(0)).size());
    if (!from || !sizes || axis != from->column_axis) return std::nullopt;
    std::vector<PlaceTable> parts;
    int64_t begin = 0;
    for (const Dim& size : *sizes) {
      if (!size.is_constant() || size.constant() < 1) return std::nullopt;
      parts.push_back(columns(*from, begin, begin + size.constant()));
      begin += size.constant();
    }
    return parts;
  }

  std::optional<PlaceTable> joined() const {
    const int64_t axis = counted(attributes_.integer("axis"), shape(operand(0)).size());
    std::optional<PlaceTable> made;
    for (size_t i = 0; i < graph_.inputs(task_).size(); ++i) {
      const auto next = table(i);
      const bool has_axis = next && (next->column_axis == axis || next->column_axis == kNone);
      if (!has_axis || next->row_axis == axis) return std::nullopt;
      if (!(shape(operand(i))[static_cast<size_t>(axis)] == Dim(static_cast<int64_t>(next->columns.size()))))
        return std::nullopt;
      if (made && (made->pick != next->pick || made->mask != next->mask || made->row_axis != next->row_axis))
        return std::nullopt;
      if (!made) {
        made = next;
      } else {
        made->columns.insert(made->columns.end(), next->columns.begin(), next->columns.end());
      }
    }
    if (made && made->columns.size() > 1) made->column_axis = axis;
    return made;
  }

  /// One of the columns, by a known number.
  std::optional<PlaceTable> selected() const {
    auto made = table(0);
    const auto at = number(graph_, operand(1));
    const int64_t axis = counted(attributes_.integer("axis"), shape(operand(0)).size());
    if (!made || !at || !at->is_constant() || axis != made->column_axis) return std::nullopt;
    const int64_t column = counted(at->constant(), made->columns.size());
    if (column < 0 || column >= static_cast<int64_t>(made->columns.size())) return std::nullopt;
    const int64_t change = static_cast<int64_t>(shape(operand(1)).size()) - 1;
    if (made->row_axis > axis) made->row_axis += change;
    return columns(*std::move(made), column, column + 1);
  }

  std::optional<PlaceTable> added(int64_t sign) const {
    const auto left = table(0), right = table(1);
    if (left && right) {
      const bool same = left->mask == right->mask && shape(operand(0)) == shape(operand(1)) &&
                        left->columns.size() == 1 && right->columns.size() == 1;
      if (!same) return std::nullopt;
      PlaceTable made = *left;
      made.columns[0] = summed(left->columns[0], scaled(right->columns[0], sign));
      return made;
    }
    const auto by = number(graph_, operand(left ? 1 : 0));
    if (!by || !(shape(output()) == shape(operand(left ? 0 : 1)))) return std::nullopt;
    PlaceTable made = left ? *left : *right;
    for (Column& column : made.columns) {
      if (!left) column = scaled(column, sign);
      column.offset = column.offset + *by * Dim(left ? sign : 1);
    }
    return made;
  }

  std::optional<PlaceTable> multiplied() const {
    const auto left = table(0);
    if (!ir::is_integer(graph_.type(output()).dtype)) return on_the_way(left ? 0 : 1);
    const auto by = number(graph_, operand(left ? 1 : 0));
    if (!by || !(shape(output()) == shape(operand(left ? 0 : 1)))) return std::nullopt;
    PlaceTable made = left ? *left : *table(1);
    for (Column& column : made.columns) column = scaled(column, *by);
    return made;
  }

  const Graph& graph_;
  TaskId task_;
  const Tables& tables_;
  const ir::Attributes& attributes_;
};

}  // namespace

Column PlaceTable::place(const Shape& shape, size_t axis) {
  Column made{std::vector<Dim>(shape.size(), Dim(0))};
  if (!(shape[axis] == Dim(1))) made.factors[axis] = 1;
  return made;
}

std::optional<std::vector<size_t>> PlaceTable::axes_of(const Shape& extents) const {
  std::vector<size_t> all;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!(columns[i].offset == Dim(0))) return std::nullopt;
    std::vector<size_t> own;  // innermost first
    Dim product = 1;
    const auto left = static_cast<size_t>(std::count_if(columns[i].factors.begin(), columns[i].factors.end(),
                                                        [](const Dim& f) { return !(f == Dim(0)); }));
    while (own.size() < left) {
      const auto next = std::find(columns[i].factors.begin(), columns[i].factors.end(), product);
      if (next == columns[i].factors.end()) return std::nullopt;
      own.push_back(static_cast<size_t>(next - columns[i].factors.begin()));
      product = product * shape[own.back()];
    }
    if (!(product == extents[i])) return std::nullopt;
    all.insert(all.end(), own.rbegin(), own.rend());
  }
  std::vector<size_t> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  const bool distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  return distinct ? std::optional(all) : std::nullopt;
}

Shape PlaceTable::sizes(const std::vector<size_t>& axes) const {
  Shape made;
  for (const size_t axis : axes) made.push_back(shape[axis]);
  return made;
}

size_t PlaceTable::rank_of(size_t axis) const {
  return static_cast<size_t>(std::find(order.begin(), order.end(), axis) - order.begin());
}

std::optional<std::vector<PlaceTable>> arranged(const Graph& graph, TaskId task, const Tables& tables) {
  return Arranged(graph, task, tables).run();
}

}  // namespace rannc::frontend
