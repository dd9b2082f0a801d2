#include "frontend/internal/rows/picked_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "frontend/internal/rows/classes.h"
#include "frontend/internal/rows/one_hot.h"
#include "ir/match/match.h"

namespace rannc::frontend {

namespace {

using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Shape;

constexpr std::string_view kSymbol = "picked.rows.";
constexpr uint64_t kLargestConstant = 4096;

bool is_equal(const Graph& graph, ValueId a, ValueId b, int depth);

bool is_equal_task(const Graph& graph, TaskId a, TaskId b, int depth) {
  const auto x = graph.inputs(a), y = graph.inputs(b);
  return &graph.op(a) == &graph.op(b) && graph.attributes_number(a) == graph.attributes_number(b) &&
         std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [&](ValueId left, ValueId right) { return is_equal(graph, left, right, depth - 1); });
}

/// Whether two values are computed in the same way from the same values.
bool is_equal(const Graph& graph, ValueId a, ValueId b, int depth) {
  if (a == b) return true;
  if (depth == 0 || !a.valid() || !b.valid()) return false;
  const Graph::Value left = graph.value(a), right = graph.value(b);
  if (left.producer.valid() && right.producer.valid())
    return left.output_index == right.output_index && is_equal_task(graph, left.producer, right.producer, depth);
  return left.kind == ir::ValueKind::kConstant && right.kind == left.kind && left.type == right.type &&
         left.data.present() && left.data.size() <= kLargestConstant && left.data == right.data;
}

/// The earliest value that is computed in the same way.
ValueId first_equal(const Graph& graph, ValueId value, int depth = kDeepestMask) {
  const TaskId task = graph.producer(value);
  if (!task.valid() || depth == 0) return value;
  const uint32_t output = graph.value(value).output_index;
  for (const ValueId operand : graph.inputs(task)) {
    if (!operand.valid()) continue;
    ValueId found;
    const bool is_found = graph.any_use(first_equal(graph, operand, depth - 1), [&](Graph::Use use) {
      if (!(use.task < task) || &graph.op(use.task) != &graph.op(task)) return false;
      found = graph.outputs(use.task)[output];
      return is_equal(graph, found, value, depth);
    });
    if (is_found) return found;
  }
  return value;
}

bool is_zero(const Graph& graph, ValueId value) { return ir::scalar_constant(graph, value) == 0.0; }

/// A mask, each of whose elements decides for `each` consecutive elements of another.
struct Deciding {
  ValueId mask;
  Dim each = 1;
};

/// The number of times that an expanded value repeats each element along last axes; nothing if it repeats otherwise.
std::optional<Dim> repeats_last(const Shape& from, const Shape& to) {
  Shape own(to.size() - from.size(), Dim(1));
  own.insert(own.end(), from.begin(), from.end());
  size_t first = 0;
  while (first < to.size() && own[first] == to[first]) ++first;
  for (size_t i = first; i < to.size(); ++i) {
    if (!(own[i] == Dim(1))) return std::nullopt;
  }
  return ir::element_count(Shape(to.begin() + static_cast<std::ptrdiff_t>(first), to.end()));
}

/// The operand of a task that picks the same rows, with how often each is repeated.
std::optional<Deciding> decided_by(const Graph& graph, TaskId task) {
  static const ir::Ops kReshaped = {"reshape", "unsqueeze", "squeeze"}, kSame = {"identity", "cast"},
                       kRepeated = "expand", kUnequal = "ne";
  const ir::OpInfo& op = graph.op(task);
  const auto operands = graph.inputs(task);
  const ir::ValueType &made = graph.type(graph.outputs(task)[0]), *from = nullptr;
  if (!operands.empty() && operands[0].valid()) from = &graph.type(operands[0]);
  if (from == nullptr || !from->shape || !made.shape) return std::nullopt;
  // Rows are counted with the samples first.
  if (kReshaped.contains(op) && from->batch.axis <= 0 && made.batch.axis <= 0) return Deciding{operands[0]};
  if (kSame.contains(op) && (made.dtype == DType::kBool || from->dtype == DType::kBool || made.dtype == from->dtype))
    return Deciding{operands[0]};
  if (kUnequal.contains(op) && is_zero(graph, operands[1]) && *from->shape == *made.shape) return Deciding{operands[0]};
  if (!kRepeated.contains(op) || from->batch.axis > 0) return std::nullopt;
  const auto each = repeats_last(*from->shape, *made.shape);
  return each ? std::optional(Deciding{operands[0], *each}) : std::nullopt;
}

/// The first mask that picks the same rows.
Deciding deciding(const Graph& graph, ValueId mask) {
  Deciding found{mask};
  for (TaskId task = graph.producer(mask); task.valid(); task = graph.producer(found.mask)) {
    const auto by = decided_by(graph, task);
    if (!by) break;
    found = {by->mask, found.each * by->each};
  }
  found.mask = first_equal(graph, found.mask);
  return found;
}

/// The task that lists places picked by a mask which is first of its kind.
std::optional<TaskId> places_by(const Graph& graph, ValueId mask) {
  TaskId found;
  const bool is_found = graph.any_use(mask, [&](Graph::Use use) {
    found = use.task;
    return graph.op(use.task).name == kPickedPlaces && use.operand == 1;
  });
  return is_found ? std::optional(found) : std::nullopt;
}

}  // namespace

bool lists_places(const Graph& graph, TaskId task) { return graph.op(task).name == kPickedPlaces; }
bool sorts_places(const Graph& graph, TaskId task) { return graph.op(task).name == kSortedPlaces; }
bool is_row_hit(const Graph& graph, TaskId task) { return graph.op(task).name == kPickedRow; }

bool is_picked(const Dim& size) {
  if (size.is_constant()) return false;
  if (size.is_symbol()) return size.symbol_name().starts_with(kSymbol);
  std::set<std::string> symbols;
  size.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& each) { return each.starts_with(kSymbol); });
}

bool is_picked(const ir::ValueType& type) {
  const auto any = [](const std::vector<Dim>& sizes) {
    return std::any_of(sizes.begin(), sizes.end(), [](const Dim& size) { return is_picked(size); });
  };
  return (type.shape && any(*type.shape)) || (type.contents && any(*type.contents));
}

bool is_picked(const ir::Attribute& attribute) {
  if (const auto* const size = std::get_if<Dim>(&attribute)) return is_picked(*size);
  const auto* const sizes = std::get_if<Shape>(&attribute);
  return sizes && std::any_of(sizes->begin(), sizes->end(), [](const Dim& size) { return is_picked(size); });
}

ValueId add_picked_places(Graph& graph, ValueId mask, const std::string& name, const Location& where) {
  const Deciding by = deciding(graph, mask);
  const auto known = places_by(graph, by.mask);
  const std::string symbol =
      known ? graph.attributes(*known).text("symbol") : fmt::format("{}{}", kSymbol, graph.task_count());
  const std::array operands = {mask, by.mask};
  const std::array names = {name};
  const TaskId task = graph.add_task(graph.foreign_op(kPickedPlaces), operands, {{"symbol", symbol}}, names, where);
  ir::ValueType type;
  type.dtype = DType::kI64;
  type.shape = {Dim(static_cast<int64_t>(graph.type(mask).shape->size())), Dim::symbol(symbol) * by.each};
  const ValueId places = graph.outputs(task)[0];
  graph.set_type(places, std::move(type));
  return places;
}

bool is_slice_of_samples(const Graph& graph, TaskId task) {
  static const ir::Ops kSlice = "slice";
  return kSlice.contains(graph.op(task)) && graph.type(graph.inputs(task)[0]).batch.has_batch() &&
         !graph.type(graph.outputs(task)[0]).batch.has_batch();
}

Result<void> infer_picked(Graph& graph, TaskId task) {
  static const ir::Ops kWritten = {"scatter_nd", "scatter_elements"};
  std::vector<ir::ValueType> types;
  for (const ValueId operand : graph.inputs(task)) {
    types.push_back(operand.valid() ? graph.type(operand) : ir::ValueType());
    types.back().batch = {};
  }
  std::vector<const ir::ValueType*> operands;
  for (size_t i = 0; i < types.size(); ++i) operands.push_back(graph.inputs(task)[i].valid() ? &types[i] : nullptr);
  const auto outputs = graph.outputs(task);
  RANNC_ASSIGN(auto made, ir::types_of({graph.op(task), operands, graph.attributes(task), "",
                                        static_cast<uint32_t>(outputs.size())}));
  if (kWritten.contains(graph.op(task))) made[0].batch = graph.type(graph.inputs(task)[0]).batch;
  for (size_t i = 0; i < made.size(); ++i) graph.set_type(outputs[i], std::move(made[i]));
  return {};
}

void note_picked_count(Graph& graph, TaskId task) {
  static const ir::Ops kSum = "sum";
  const ValueId sum = graph.outputs(task)[0];
  const ir::ValueType& type = graph.type(sum);
  if (!kSum.contains(graph.op(task)) || !ir::is_integer(type.dtype) || !type.shape || type.shape->size() > 1) return;
  if (!(ir::element_count(*type.shape) == Dim(1))) return note_class_counts(graph, task);
  const Deciding by = deciding(graph, graph.inputs(task)[0]);
  const auto places = graph.type(by.mask).dtype == DType::kBool ? places_by(graph, by.mask) : std::nullopt;
  if (!places) return;
  ir::ValueType counted = type;
  counted.contents = {Dim::symbol(graph.attributes(*places).text("symbol")) * by.each};
  graph.set_type(sum, std::move(counted));
}

}  // namespace rannc::frontend
