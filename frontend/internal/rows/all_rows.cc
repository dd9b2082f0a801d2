#include "frontend/internal/rows/all_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "frontend/internal/rows/check_hits.h"
#include "frontend/internal/rows/picked_rows.h"
#include "frontend/internal/rows/place_tables.h"
#include "frontend/internal/rows/row_rules.h"
#include "frontend/internal/rows/row_writer.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"

namespace rannc::frontend {

namespace {

using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Shape;

constexpr const char* kRemark =
    "rows that a mask picks are computed with all other rows, whose results are not used: each expert computes all "
    "tokens";

constexpr int64_t kNoLabel = -(int64_t{1} << 53);  ///< exact as a double

class AllRows {
 public:
  AllRows(const Graph& from, ImportNotes& notes) : from_(from), notes_(notes), picks_(from), to_(from) {}

  /// Nothing if nothing changes.
  Result<std::optional<Graph>> run() {
    find_needed();
    bool drops = false;
    for (const TaskId task : from_.tasks()) {
      if (needed_[task.index()]) RANNC_TRY(check_slice(from_, task));
      drops = drops || is_slice_of_samples(from_, task);
      RANNC_TRY(check_bodies(from_, task));
    }
    if (picks_.empty() && !drops) return std::optional<Graph>();
    RANNC_TRY(check_rows_hit(from_, picks_, needed_));
    for (const TaskId task : from_.tasks()) RANNC_TRY(rewrite(task));
    for (const ir::Assumption& each : from_.assumptions()) {
      const Dim& counted = is_picked(each.left) ? each.left : each.right;
      if (is_picked(counted))
        return picks_.fault(each.where, "must have a size that the rows of a mask have", picks_.of(counted));
    }
    for (const ValueId output : from_.outputs()) {
      if (is_picked(from_.type(output))) return picks_.fault(place_of(output), "is an output", *picks_.in(output));
    }
    if (!used_.empty()) notes_.counted_remarks[kRemark] = used_.size();
    return std::optional(std::move(to_).finish());
  }

 private:
  // --- the imported graph

  static Result<void> check_slice(const Graph& graph, TaskId task) {
    if (!is_slice_of_samples(graph, task)) return {};
    std::vector<ir::Equality> assumed;
    const auto operands = ir::type_list(graph, graph.inputs(task));
    const auto typed =
        ir::types_of({graph.op(task), operands, graph.attributes(task), graph.batch_symbol(), 1, &assumed});
    if (typed.ok()) return {};
    return error(graph.location(task), fmt::format("{}: {}", graph.op(task).name, typed.diagnostic().message));
  }

  static Result<void> check_bodies(const Graph& graph, TaskId task) {
    for (const auto& [name, attribute] : graph.attributes(task)) {
      const auto* const body = std::get_if<ir::Body>(&attribute);
      if (body == nullptr) continue;
      for (const TaskId within : body->graph().tasks()) {
        RANNC_TRY(check_slice(body->graph(), within));
        RANNC_TRY(check_bodies(body->graph(), within));
        if (lists_places(body->graph(), within) || sorts_places(body->graph(), within))
          return error(body->graph().location(within),
                       "rows picked by a mask in a branch or loop that data decide are not supported");
      }
    }
    return {};
  }

  void find_needed() {
    std::vector<bool> values(from_.value_count());
    needed_.resize(from_.task_count());
    for (const ValueId output : from_.outputs()) values[output.index()] = true;
    for (const Pick& each : picks_.all()) {  // masks of classes are read where rows are joined
      for (const std::string& symbol : each.symbols) {
        if (each.is_all()) values[picks_[picks_.of(Dim::symbol(symbol))].mask.index()] = true;
      }
    }
    for (const ir::Statistics& each : from_.statistics())
      values[each.mean.index()] = values[each.variance.index()] = true;
    for (uint32_t i = from_.task_count(); i-- > 0;) {
      const TaskId task(i);
      const auto outputs = from_.outputs(task);
      needed_[i] = std::any_of(outputs.begin(), outputs.end(), [&](ValueId each) { return values[each.index()]; });
      if (!needed_[i] || is_row_hit(from_, task)) continue;  // a row that is hit becomes its number
      for (const ValueId operand : from_.inputs(task)) {
        if (operand.valid()) values[operand.index()] = true;
      }
    }
  }

  Location place_of(ValueId value) const {
    const TaskId task = from_.producer(value);
    return task.valid() ? from_.location(task) : Location{};
  }

  // --- rewriting

  Result<void> rewrite(TaskId task) {
    const auto operands = from_.inputs(task), outputs = from_.outputs(task);
    const auto counts = [&](ValueId value) { return value.valid() && is_picked(from_.type(value)); };
    bool reads_count = false;
    for (const auto& [name, attribute] : from_.attributes(task)) reads_count = reads_count || is_picked(attribute);
    if (is_row_hit(from_, task)) return add_row_hit(task);
    const bool concerned = reads_count || lists_places(from_, task) || sorts_places(from_, task) ||
                           std::any_of(operands.begin(), operands.end(), counts) ||
                           std::any_of(outputs.begin(), outputs.end(), counts);
    if (!needed_[task.index()]) {
      const bool is_lost = !picks_.empty() || is_slice_of_samples(from_, task) ||
                           std::any_of(operands.begin(), operands.end(),
                                       [&](ValueId operand) { return operand.valid() && !to_.mapped(operand); });
      if (!is_lost) to_.copy(task);
      return {};
    }
    if (!concerned) {
      return copy(task,
                  std::any_of(operands.begin(), operands.end(), [&](ValueId each) { return retyped_.contains(each); }));
    }
    if (lists_places(from_, task) || sorts_places(from_, task)) return add_places(task);
    RowWriter writer(picks_, to_, masks_, from_.location(task), from_.op(task).name, stem(task));
    RANNC_TRY(rewrite(task, writer));
    return writer.failure() ? Result<void>(*writer.failure()) : Result<void>();
  }

  /// Copies a task. `retyped`: its types may change, as where it reads a sum over picked rows, which combines samples.
  Result<void> copy(TaskId task, bool retyped) {
    const TaskId made = to_.copy(task);
    if (!retyped) return {};
    const auto typed = ir::infer_types(to_.graph(), made);
    if (!typed.ok()) return typed.diagnostic();
    for (const ValueId each : from_.outputs(task)) note_type(each);
    return {};
  }

  void note_type(ValueId made) {
    if (!(to_.graph().type(to_.map(made)) == from_.type(made))) retyped_.insert(made);
  }

  std::string stem(TaskId task) const { return std::string(from_.value(from_.outputs(task)[0]).name); }

  Result<void> rewrite(TaskId task, RowWriter& writer) {
    const auto operands = from_.inputs(task);
    const auto is_table = [&](ValueId value) { return tables_.contains(value); };
    if (splits_classes(task)) return split_classes(task);
    if (joins_classes(task)) return join_classes(task, writer);
    if (std::none_of(operands.begin(), operands.end(), is_table)) return compute_rows(task, writer);
    const std::string& op = from_.op(task).name;
    const bool picks = (op == "core.gather" || op == "core.gather_nd" || op == "core.gather_elements") &&
                       is_table(operands[1]) && !is_table(operands[0]);
    const bool writes = (op == "core.scatter_nd" || op == "core.scatter_elements") && is_table(operands[1]) &&
                        !is_table(operands[0]) && !is_table(operands[2]);
    if (picks) return pick_rows(task, writer);
    if (writes) return write_rows(task, writer);
    if (auto made = arranged(from_, task, tables_)) {
      for (size_t i = 0; i < made->size(); ++i) tables_.emplace(from_.outputs(task)[i], std::move((*made)[i]));
      return {};
    }
    const auto first = std::find_if(operands.begin(), operands.end(), is_table);
    return picks_.fault(from_.location(task),
                        fmt::format("({}) computes with the places of rows that a mask picks", op),
                        tables_.at(*first).pick);
  }

  Result<void> add_row_hit(TaskId task) {
    if (!needed_[task.index()]) return {};
    RowWriter writer(picks_, to_, masks_, from_.location(task), "row", stem(task));
    const ir::ValueType& type = from_.type(from_.outputs(task)[0]);
    const std::array names = {stem(task)};
    const auto made = writer.add(
        "full", {},
        {{"shape", *type.shape}, {"value", Dim(from_.attributes(task).integer("index"))}, {"dtype", type.dtype}},
        names);
    if (writer.failure()) return *writer.failure();
    to_.replace(from_.outputs(task)[0], made[0]);
    return {};
  }

  Result<void> add_places(TaskId task) {
    const ValueId mask = from_.inputs(task)[0], places = from_.outputs(task)[0];
    const Shape listed = *from_.type(places).shape;
    PlaceTable table;
    table.pick = picks_.of(listed.back());
    const Pick& pick = picks_[table.pick];
    table.mask = mask;
    table.shape = *from_.type(mask).shape;
    table.is_own = table.shape == pick.shape;
    table.order = pick.order;
    if (!table.is_own) {
      table.order.resize(table.shape.size());
      std::iota(table.order.begin(), table.order.end(), 0);
    }
    if (pick.is_all()) {
      PlaceTable::Column flat{Shape(table.shape.size(), Dim(0))};
      Dim behind = 1;
      for (size_t axis = table.shape.size(); axis-- > 0; behind = behind * table.shape[axis]) {
        if (!(table.shape[axis] == Dim(1))) flat.factors[axis] = behind;
      }
      table.columns.push_back(std::move(flat));
    } else {
      for (size_t axis = 0; axis < table.shape.size(); ++axis)
        table.columns.push_back(PlaceTable::place(table.shape, axis));
      table.row_axis = 1;
      if (table.columns.size() > 1) table.column_axis = 0;
      table.each = *ir::exact_div(listed[1], pick.symbol());
    }
    tables_.emplace(places, std::move(table));
    return {};
  }

  /// Rows of all classes, split into those of each.
  Result<void> split_classes(TaskId task) {
    const auto operands = from_.inputs(task), outputs = from_.outputs(task);
    const Rows& rows = rows_.at(operands[0]);
    for (size_t i = 0; i < outputs.size(); ++i) {
      to_.replace(outputs[i], to_.map(operands[0]));
      rows_.emplace(outputs[i], Rows{picks_.of(Dim::symbol(picks_[rows.pick].symbols[i])), rows.at, rows.on});
    }
    return {};
  }

  /// Whether these are the numbers of rows of each class, in order.
  bool are_classes(const Pick& pick, const std::vector<Dim>& sizes) const {
    return pick.is_all() &&
           std::equal(sizes.begin(), sizes.end(), pick.symbols.begin(), pick.symbols.end(),
                      [](const Dim& size, const std::string& symbol) { return size == Dim::symbol(symbol); });
  }

  bool splits_classes(TaskId task) const {
    if (&from_.op(task) != &ir::core("split")) return false;
    const auto found = rows_.find(from_.inputs(task)[0]);
    const Shape* const sizes = from_.attributes(task).list("sizes");
    if (found == rows_.end() || !sizes) return false;
    const Shape& shape = *from_.type(found->first).shape;
    const int64_t axis = from_.attributes(task).integer("axis");
    return (axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis) == found->second.at.axis &&
           are_classes(picks_[found->second.pick], *sizes);
  }

  bool joins_classes(TaskId task) const {
    if (&from_.op(task) != &ir::core("concat")) return false;
    const Shape& shape = *from_.type(from_.outputs(task)[0]).shape;
    const int64_t given = from_.attributes(task).integer("axis");
    const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(shape.size()) : given);
    if (!is_picked(shape[axis])) return false;
    std::vector<Dim> sizes;
    for (const ValueId each : from_.inputs(task)) {
      const auto found = rows_.find(each);
      if (found == rows_.end() || static_cast<size_t>(found->second.at.axis) != axis) return false;
      sizes.push_back((*from_.type(each).shape)[axis]);
    }
    return are_classes(picks_[picks_.of(shape[axis])], sizes);
  }

  /// Rows of each class, joined: each row is that of its class.
  Result<void> join_classes(TaskId task, RowWriter& writer) {
    const ValueId output = from_.outputs(task)[0];
    ValueId made;
    Rows rows;
    for (const ValueId each : from_.inputs(task)) {
      rows = rows_.at(each);
      const ValueId value = writer.widened(to_.map(each), rows, picks_[rows.pick].order);
      made = writer.guarded(value, rows, made.valid() ? made : writer.scalar(0, from_.type(output).dtype));
    }
    rows.pick = *picks_.in(output);
    return finish(task, writer, made, rows);
  }

  /// Picks whole rows of a value: all rows of it, in the order of the mask's.
  Result<void> pick_rows(TaskId task, RowWriter& writer) {
    const auto operands = from_.inputs(task);
    const PlaceTable& table = tables_.at(operands[1]);
    const Pick& pick = picks_[table.pick];
    const Location& where = from_.location(task);
    if (picks_.has_rows(operands[0]))
      return picks_.fault(where, "picks among rows that a mask picks", *picks_.in(operands[0]));
    const std::string& op = from_.op(task).name;
    const Shape shape = *from_.type(operands[0]).shape, result = *from_.type(from_.outputs(task)[0]).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    int64_t first = 0;
    if (op == "core.gather_nd") {
      if (from_.attributes(task).integer("batch_dims") != 0)
        return picks_.fault(where, "picks rows with leading axes in common", table.pick);
    } else {
      first = from_.attributes(task).integer("axis");
      first = first < 0 ? first + rank : first;
    }
    const auto begin = static_cast<size_t>(first), end = begin + table.columns.size();
    const bool is_elements = op == "core.gather_elements";
    if (op != "core.gather_nd" && table.columns.size() != 1)
      return picks_.fault(where, "picks by several places per row", table.pick);
    if (is_elements && (table.row_axis != first || !has_extents_but(result, shape, begin)))
      return picks_.fault(where, "picks parts of rows by a mask", table.pick);
    const bool is_tuple = op != "core.gather_nd" || last_axis_has_columns(operands[1], table);
    const auto axes = is_tuple && end <= shape.size() ? table.axes_of(part(shape, begin, end)) : std::nullopt;
    if (!axes)
      return picks_.fault(where, "picks by places that are not those of a mask over the same axes", table.pick);
    ValueId value = writer.reshaped(
        to_.map(operands[0]), joined({part(shape, 0, begin), table.sizes(*axes), part(shape, end, shape.size())}));
    // Rows are listed in the order of the mask.
    Axes sorted = *axes;
    std::sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return table.rank_of(a) < table.rank_of(b); });
    Axes dims(begin);
    std::iota(dims.begin(), dims.end(), 0);
    for (const size_t axis : sorted)
      dims.push_back(begin + static_cast<size_t>(std::find(axes->begin(), axes->end(), axis) - axes->begin()));
    for (size_t i = begin + axes->size(); i < begin + axes->size() + shape.size() - end; ++i) dims.push_back(i);
    value = writer.permuted(value, dims);
    Rows rows{table.pick, {}, sorted};
    used_.insert(table.pick);
    if (!table.is_own) {
      rows.on = pick.order;
      Shape narrow, wide;
      for (const size_t axis : table.order) {
        const bool has = std::count(sorted.begin(), sorted.end(), axis) > 0;
        narrow.push_back(has ? table.shape[axis] : Dim(1));
        wide.push_back(table.shape[axis]);
      }
      const auto with = [&](const Shape& middle) {
        return joined({part(shape, 0, begin), middle, part(shape, end, shape.size())});
      };
      value = writer.reshaped(value, with(narrow));
      if (!(narrow == wide)) value = writer.emit("expand", {value}, {{"shape", with(wide)}});
    }
    value = writer.reshaped(value, pick.shape_on(result, rows.on));
    rows.at.axis = static_cast<int32_t>(is_elements ? first : first + table.row_axis);
    rows.at.inner = table.each;
    if (writer.good() && writer.dtype(value) != DType::kBool && pick.has_samples(rows.on))
      value = writer.guarded(value, rows, 0);
    return finish(task, writer, value, rows);
  }

  /// Whether the last axis of indices holds the numbers of one place.
  bool last_axis_has_columns(ValueId indices, const PlaceTable& table) const {
    const Shape& shape = *from_.type(indices).shape;
    const auto last = static_cast<int64_t>(shape.size()) - 1;
    return table.column_axis == last || (table.column_axis < 0 && table.row_axis != last && shape.back() == Dim(1));
  }

  static bool has_extents_but(const Shape& a, const Shape& b, size_t axis) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (i != axis && !(a[i] == b[i])) return false;
    }
    return true;
  }

  Result<void> finish(TaskId task, RowWriter& writer, ValueId value, std::optional<Rows> rows) {
    const std::array operands = {value};
    const std::array names = {stem(task)};
    const auto made = writer.good() ? writer.add("identity", operands, {}, names) : std::vector<ValueId>();
    if (made.empty()) return {};
    to_.replace(from_.outputs(task)[0], made[0]);
    if (!picks_.has_rows(from_.outputs(task)[0])) note_type(from_.outputs(task)[0]);
    if (rows) rows_.emplace(from_.outputs(task)[0], std::move(*rows));
    return {};
  }

  /// Writes all rows, those that are not picked as they were.
  Result<void> write_rows(TaskId task, RowWriter& writer) {
    const auto operands = from_.inputs(task);
    const PlaceTable& table = tables_.at(operands[1]);
    const Pick& pick = picks_[table.pick];
    const Location& where = from_.location(task);
    if (picks_.has_rows(operands[0]))
      return picks_.fault(where, "writes among rows that a mask picks", *picks_.in(operands[0]));
    const bool is_elements = from_.op(task).name == "core.scatter_elements";
    const std::string reduction = from_.attributes(task).text("reduction", "none");
    const Shape shape = *from_.type(operands[0]).shape, given = *from_.type(operands[2]).shape;
    int64_t first = is_elements ? from_.attributes(task).integer("axis") : 0;
    if (first < 0) first += static_cast<int64_t>(shape.size());
    const auto begin = static_cast<size_t>(first), end = begin + table.columns.size();
    if (is_elements && (table.columns.size() != 1 || table.row_axis != first || !has_extents_but(given, shape, begin)))
      return picks_.fault(where, "writes parts of rows by a mask", table.pick);
    const bool is_tuple = is_elements || last_axis_has_columns(operands[1], table);
    const auto axes = is_tuple && end <= shape.size() ? table.axes_of(part(shape, begin, end)) : std::nullopt;
    if (!axes)
      return picks_.fault(where, "writes to places that are not those of a mask over the same axes", table.pick);
    Rows rows;
    RANNC_ASSIGN(ValueId value, rows_read(task, 2, rows));
    if (rows.pick != table.pick) return picks_.fault(where, "writes rows that another mask picks", rows.pick);
    const auto row_axis = is_elements ? first : table.row_axis;
    if (rows.at.axis != row_axis || !(rows.at.outer == Dim(1)) || !(rows.at.inner == table.each))
      return picks_.fault(where, "writes rows in another order than the mask picks them", table.pick);
    value = writer.widened(value, rows, pick.order);
    // [before, axes that are written, axes that are not, after]
    Axes others;
    for (const size_t axis : table.order) {
      if (std::count(axes->begin(), axes->end(), axis) == 0) others.push_back(axis);
    }
    Axes all = *axes;
    all.insert(all.end(), others.begin(), others.end());
    const Shape before = part(shape, 0, begin), after = part(shape, end, shape.size());
    value = writer.reshaped(value, joined({before, table.sizes(table.order), after}));
    Axes dims(begin);
    std::iota(dims.begin(), dims.end(), 0);
    for (const size_t axis : all) dims.push_back(begin + table.rank_of(axis));
    for (size_t i = 0; i < after.size(); ++i) dims.push_back(begin + all.size() + i);
    value = writer.permuted(value, dims);
    const auto beside = [&](const Shape& middle) {
      return joined({Shape(before.size(), Dim(1)), middle, Shape(after.size(), Dim(1))});
    };
    ValueId mask;
    if (!pick.is_all())
      mask = writer.reshaped(writer.permuted(writer.truth(table.mask), all), beside(table.sizes(all)));
    const ValueId old = writer.reshaped(to_.map(operands[0]), joined({before, table.sizes(*axes), after}));
    std::vector<int64_t> repeated(others.size());
    std::iota(repeated.begin(), repeated.end(), static_cast<int64_t>(begin + axes->size()));
    const auto is_single = [&](size_t axis) { return table.shape[axis] == Dim(1); };
    const bool is_unique = std::all_of(others.begin(), others.end(), is_single);
    if (!writer.good()) return {};
    ValueId made;
    if (reduction == "none" && others.empty()) {
      made = mask.valid() ? writer.emit("where", {mask, value, old}) : value;
    } else if (reduction == "none" || reduction == "add") {
      // Without a reduction no place may be written twice, so that the sum is that of one row.
      ValueId sum = value;
      if (mask.valid()) sum = writer.emit("where", {mask, value, writer.scalar(0, writer.dtype(value))});
      if (!others.empty()) sum = writer.emit("sum", {sum}, {{"axes", list(repeated)}, {"keepdim", false}});
      if (reduction == "add") {
        made = writer.emit("add", {old, sum});
      } else {
        made = mask.valid() ? writer.emit("where", {writer.any_over(mask, repeated), sum, old}) : sum;
      }
    } else {
      if (!is_unique || !others.empty())
        return picks_.fault(where, "(" + reduction + ") writes several rows to one place", table.pick);
      const std::string op = reduction == "mul" ? "mul" : reduction == "max" ? "maximum" : "minimum";
      made = writer.emit(op, {old, value});
      if (mask.valid()) made = writer.emit("where", {mask, made, old});
    }
    return finish(task, writer, writer.reshaped(made, shape), std::nullopt);
  }

  /// Operand `number` in the new graph, with its rows.
  Result<ValueId> rows_read(TaskId task, size_t number, Rows& rows) const {
    const ValueId operand = from_.inputs(task)[number];
    const auto found = rows_.find(operand);
    if (found == rows_.end())
      return picks_.fault(from_.location(task), "reads a value that has no rows of its own",
                          picks_.in(operand).value_or(tables_.at(from_.inputs(task)[1]).pick));
    rows = found->second;
    return to_.map(operand);
  }

  /// A task that computes rows, or their sizes.
  Result<void> compute_rows(TaskId task, RowWriter& writer) {
    const auto operands = from_.inputs(task), outputs = from_.outputs(task);
    const Location where = from_.location(task);
    std::optional<size_t> number;
    bool has_operand = false;
    const auto meet = [&](std::optional<size_t> found) {
      const bool same = !found || !number || *found == *number;
      if (found && !number) number = found;
      return same;
    };
    for (const ValueId each : operands) {
      if (!each.valid() || !picks_.has_rows(each)) continue;
      has_operand = true;
      if (!meet(picks_.in(each))) return picks_.fault(where, "joins rows that different masks pick", *picks_.in(each));
    }
    for (const ValueId each : outputs) {
      if (picks_.has_rows(each) && !meet(picks_.in(each)))
        return picks_.fault(where, "joins rows that different masks pick", *picks_.in(each));
    }
    RANNC_TRY(check_counted(from_, picks_, task, number));
    if (!number) return copy(task, true);  // only known elements count rows
    if (has_operand &&
        std::none_of(outputs.begin(), outputs.end(), [&](ValueId each) { return picks_.has_rows(each); })) {
      RANNC_ASSIGN(const ValueId reduced, reduced_rows(task, writer, *number));
      if (reduced.valid()) return finish(task, writer, reduced, std::nullopt);
      return picks_.fault(where, fmt::format("({}) computes over rows that a mask picks", from_.op(task).name),
                          *number);
    }
    RANNC_ASSIGN(const auto types, types_by_row(from_, picks_, rows_, task, *number));
    const Pick& pick = picks_[*number];
    Axes on;
    for (const ValueId each : operands) {
      const auto found = each.valid() ? rows_.find(each) : rows_.end();
      if (found != rows_.end()) on = pick.united(on, found->second.on);
    }
    const auto needs = guards(from_, task);
    if (!needs.empty() && !pick.has_samples(on)) on = pick.order;
    std::vector<ValueId> read;
    for (size_t i = 0; i < operands.size(); ++i) {
      const ValueId each = operands[i];
      ValueId value = to_.map(each);
      const auto found = each.valid() ? rows_.find(each) : rows_.end();
      if (found != rows_.end()) {
        Rows rows = found->second;
        value = writer.widened(value, rows, on);
        for (const Guard& guard : needs) {
          if (guard.operand == i) value = writer.guarded(value, rows, guard.number);
        }
      }
      read.push_back(value);
    }
    RANNC_TRY(type_random(task, read, *number, on));
    if (!writer.good()) return {};
    ir::Attributes attributes = from_.attributes(task);
    for (const auto& [name, attribute] : from_.attributes(task)) {
      if (const auto* const sizes = std::get_if<Shape>(&attribute)) attributes.set(name, pick.shape_on(*sizes, on));
    }
    std::vector<std::string> names;
    for (const ValueId each : outputs) names.emplace_back(from_.value(each).name);
    const auto made = writer.add(from_.op(task).name.substr(5), read, std::move(attributes), names);
    for (size_t i = 0; i < made.size(); ++i) {
      to_.replace(outputs[i], made[i]);
      rows_.emplace(outputs[i], Rows{*number, types[i].batch, on});
    }
    return {};
  }

  /// A sum or mean over picked rows: rows that are not picked add nothing. Invalid if the task is none, or depends on
  /// more.
  Result<ValueId> reduced_rows(TaskId task, RowWriter& writer, size_t number) {
    static const ir::Ops kSum = "sum", kMean = "mean", kLosses = "cross_entropy_sum";
    const ir::OpInfo& op = from_.op(task);
    const auto operands = from_.inputs(task);
    const bool is_mean = kMean.contains(op), is_loss = kLosses.contains(op);
    if (picks_[number].is_all() || !(kSum.contains(op) || is_mean || is_loss) || from_.outputs(task).size() != 1)
      return ValueId();
    const size_t masked = is_loss ? 1 : 0;  // labels of rows that are not picked are ignored
    ir::Attributes attributes = from_.attributes(task);
    const int64_t ignored = std::max(attributes.integer("ignore_index"), kNoLabel);
    if (is_loss) attributes.set("ignore_index", Dim(ignored));
    std::vector<ValueId> read;
    for (size_t i = 0; i < operands.size(); ++i) {
      read.push_back(to_.map(operands[i]));
      const auto found = operands[i].valid() ? rows_.find(operands[i]) : rows_.end();
      if (found == rows_.end()) {
        if (i <= masked) return ValueId();
        continue;
      }
      Rows rows = found->second;
      read.back() = writer.widened(read.back(), rows, picks_[number].order);
      if (i != masked) continue;
      read.back() = writer.guarded(read.back(), rows, is_loss ? static_cast<double>(ignored) : 0);
    }
    if (!is_mean) return writer.emit(op.name.substr(5), read, std::move(attributes));
    const auto each = elements_of_row(task, picks_[number]);
    if (!each || !writer.good()) return ValueId();
    // In 16 bits neither the sum nor the number of elements may be finite, or exact, where the mean is.
    const DType dtype = writer.dtype(read[0]), wide = ir::byte_size(dtype) < 4 ? DType::kF32 : dtype;
    const auto as = [&](ValueId value, DType type) {
      return writer.dtype(value) == type ? value : writer.emit("cast", {value}, {{"dtype", type}});
    };
    read[0] = as(read[0], wide);
    const ValueId sum = writer.emit("sum", read, std::move(attributes));
    const ValueId places =
        writer.emit("cast", {writer.mask_on(number, picks_[number].order)}, {{"dtype", DType::kI64}});
    ValueId count = writer.emit("sum", {places}, {{"keepdim", false}});
    count = writer.emit(
        "mul", {writer.emit("cast", {count}, {{"dtype", wide}}), writer.scalar(static_cast<double>(*each), wide)});
    return as(writer.emit("div", {sum, count}), dtype);
  }

  /// How many elements of a row a reduction joins, if that is known.
  std::optional<int64_t> elements_of_row(TaskId task, const Pick& pick) const {
    const Shape& shape = *from_.type(from_.inputs(task)[0]).shape;
    Dim elements = from_.attributes(task).has("axes") ? Dim(1) : ir::element_count(shape);
    for (const int64_t axis : from_.attributes(task).integers("axes"))
      elements = elements * shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis)];
    const auto each = ir::exact_div(elements, pick.symbol());
    return each && each->is_constant() ? std::optional(each->constant()) : std::nullopt;
  }

  /// A random input gets the type of the rows that it is combined with.
  Result<void> type_random(TaskId task, const std::vector<ValueId>& read, size_t number, const Axes& on) {
    const auto operands = from_.inputs(task);
    for (size_t i = 0; i < operands.size(); ++i) {
      const ValueId each = operands[i];
      if (!each.valid() || rows_.contains(each) || !picks_.has_rows(each)) continue;
      ir::ValueType type = from_.type(each);
      type.shape = picks_[number].shape_on(*type.shape, on);
      const auto like = std::find_if(read.begin(), read.end(), [&](ValueId value) {
        return value.valid() && value != read[i] && to_.graph().type(value).shape == type.shape;
      });
      if (like == read.end())
        return picks_.fault(from_.location(task), "reads random numbers of another shape than the rows", number);
      type.batch = to_.graph().type(*like).batch;
      to_.graph().set_type(read[i], std::move(type));
      rows_.emplace(each, Rows{number, random_rows(from_, each, picks_[number]), on});
    }
    return {};
  }

  const Graph& from_;
  ImportNotes& notes_;
  Picks picks_;
  ir::Rewriter to_;
  std::vector<bool> needed_;
  std::map<ValueId, PlaceTable> tables_;
  std::map<ValueId, Rows> rows_;
  RowMasks masks_;
  std::set<ValueId> retyped_;  ///< imported values whose types have changed
  std::set<size_t> used_;      ///< picks whose rows are computed
};

}  // namespace

Result<void> compute_all_rows(ir::Graph& graph, ImportNotes& notes) {
  RANNC_ASSIGN(auto made, AllRows(graph, notes).run());
  if (made) graph = std::move(*made);
  return {};
}

}  // namespace rannc::frontend
