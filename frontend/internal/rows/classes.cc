#include "frontend/internal/rows/classes.h"

#include <algorithm>
#include <array>

#include "frontend/internal/rows/one_hot.h"
#include "frontend/internal/rows/picked_rows.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Shape;

namespace {

constexpr ir::Capture kClasses{0}, kChosen{1}, kOld{2}, kNew{3};
constexpr int64_t kMostClasses = 1024;
/// The inverse of sorted places, which is their only operand.
constexpr std::string_view kUnsortedPlaces = "places before the sort";

std::optional<ClassChoice> choice_of(const Graph& graph, ValueId value) {
  static const ir::Pattern kChoice = ir::through({"reshape", "unsqueeze", "squeeze", "cast", "identity"},
                                                 ir::op("topk", ir::any()).output(1).as(kChosen));
  const auto found = ir::match(graph, value, kChoice);
  if (!found || !ir::is_integer(graph.type(value).dtype)) return std::nullopt;
  const ir::Attributes& topk = found->attributes(kChosen);
  const ValueId from = graph.inputs(found->task(kChosen))[0];
  const auto& shape = graph.type(from).shape;
  const auto rank = static_cast<int64_t>(shape->size());
  const int64_t axis = topk.integer("axis", -1);
  if ((axis < 0 ? axis + rank : axis) != rank - 1 || !shape->back().is_constant()) return std::nullopt;
  if (shape->back().constant() < 2 || shape->back().constant() > kMostClasses) return std::nullopt;
  return ClassChoice{(*found)[kChosen], shape->back().constant()};
}

ValueId added(Graph& graph, std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes,
              const Location& where) {
  const ValueId made = graph.add(ir::core(op), operands, std::move(attributes), {}, where);
  const auto typed = ir::infer_types(graph, graph.producer(made));
  RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
  return made;
}

/// The places of the rows of each class.
std::vector<ValueId> class_places(Graph& graph, const ClassChoice& choice, const Location& where) {
  std::vector<ValueId> places;
  for (int64_t i = 0; i < choice.classes; ++i) {
    const DType dtype = graph.type(choice.indices).dtype;
    const ValueId number = added(graph, "full", {}, {{"shape", Shape{}}, {"value", Dim(i)}, {"dtype", dtype}}, where);
    const ValueId mask = added(graph, "eq", {choice.indices, number}, {}, where);
    places.push_back(add_picked_places(graph, mask, {}, where));
  }
  return places;
}

bool are_counted(const Graph& graph, const ClassChoice& choice) {
  return graph.any_use(choice.indices, [&](Graph::Use use) {
    return &graph.op(use.task) == &ir::core("eq") &&
           graph.any_use(graph.outputs(use.task)[0], [&](Graph::Use by) { return lists_places(graph, by.task); });
  });
}

Dim rows_of(const Graph& graph, ValueId places) { return (*graph.type(places).shape)[1]; }

bool is_repeated(const Graph& graph, ValueId value, double number) {
  static const ir::Pattern kShown = ir::through({"expand", "cast", "identity", "reshape"}, ir::any(kClasses));
  return ir::scalar_constant(graph, (*ir::match(graph, value, kShown))[kClasses]) == number;
}

/// The choice that a value encodes as zeros and ones along an axis, which is counted over all other axes.
std::optional<ClassChoice> encoded(const Graph& graph, AxisOf at) {
  static const ir::Pattern kScattered =
      ir::op("scatter_elements", ir::any(kOld), ir::any(kClasses), ir::any(kNew)).as(kChosen);
  for (int steps = 0; steps < kDeepestMask && graph.producer(at.value).valid(); ++steps) {
    if (const auto found = classes_of(graph, at)) return choice_of(graph, *found);
    if (const auto found = ir::match(graph, at.value, kScattered)) {
      const auto rank = static_cast<int64_t>(graph.type(at.value).shape->size());
      const int64_t axis = found->attributes(kChosen).integer("axis");
      const bool is_hot = (axis < 0 ? axis + rank : axis) == at.axis && at.axis == rank - 1 &&
                          is_repeated(graph, (*found)[kOld], 0) && is_repeated(graph, (*found)[kNew], 1);
      return is_hot ? choice_of(graph, (*found)[kClasses]) : std::nullopt;
    }
    const auto next = before(graph, at);
    if (!next) return std::nullopt;
    at = *next;
  }
  return std::nullopt;
}

}  // namespace

void note_class_counts(Graph& graph, TaskId task) {
  const ValueId sum = graph.outputs(task)[0];
  const auto left = axis_left(graph, task);
  if (!left || graph.type(sum).shape->size() != 1) return;
  const auto choice = encoded(graph, {graph.inputs(task)[0], *left});
  if (!choice || !(graph.type(sum).shape->front() == Dim(choice->classes))) return;
  ir::ValueType counted = graph.type(sum);
  counted.contents.emplace();
  for (const ValueId each : class_places(graph, *choice, graph.location(task)))
    counted.contents->push_back(rows_of(graph, each));
  graph.set_type(sum, std::move(counted));
}

std::optional<ClassChoice> choice_of_rows(const Graph& graph, ValueId value) {
  constexpr ir::Capture kInOrder{0}, kPlaces{1}, kSort{2};
  static const ir::Pattern kSame = ir::through({"cast", "identity", "reshape"}, ir::any(kInOrder));
  static const ir::Pattern kGathered = ir::op("gather", ir::any(kInOrder), ir::any(kPlaces));
  static const ir::Pattern kSorted = ir::op("topk", ir::any(kInOrder)).output(0).as(kSort);
  value = (*ir::match(graph, value, kSame))[kInOrder];
  if (const auto gathered = ir::match(graph, value, kGathered); gathered && sorts_rows(graph, (*gathered)[kPlaces])) {
    value = (*gathered)[kInOrder];
  } else if (const auto sorted = ir::match(graph, value, kSorted)) {
    const ValueId from = (*sorted)[kInOrder];
    if (graph.type(from).shape->size() == 1 && graph.type(from).shape == graph.type(value).shape) value = from;
  }
  return choice_of(graph, value);
}

bool sorts_rows(const Graph& graph, ValueId value) {
  const TaskId task = graph.producer(value);
  return task.valid() && sorts_places(graph, task);
}

Dim unsorted_count(const Graph& graph, ValueId places) {
  return ir::element_count(*graph.type(graph.inputs(graph.producer(places))[0]).shape);
}

ValueId add_unsorted_places(Graph& graph, ValueId places, const std::string& name, const Location& where) {
  const std::array operands = {places};
  const std::array names = {name};
  const TaskId task = graph.add_task(graph.foreign_op(kUnsortedPlaces), operands, {}, names, where);
  ir::ValueType type;
  type.dtype = DType::kI64;
  type.shape = {unsorted_count(graph, places)};
  const ValueId made = graph.outputs(task)[0];
  graph.set_type(made, std::move(type));
  return made;
}

std::optional<ValueId> sorted_behind(const Graph& graph, ValueId value) {
  static const ir::Pattern kSame = ir::through({"cast", "identity"}, ir::any(kClasses));
  const TaskId task = graph.producer((*ir::match(graph, value, kSame))[kClasses]);
  if (!task.valid() || graph.op(task).name != kUnsortedPlaces) return std::nullopt;
  return graph.inputs(task)[0];
}

std::optional<ValueId> add_sorted_places(Graph& graph, ValueId classes, const std::string& name,
                                         const Location& where) {
  const auto choice = choice_of(graph, classes);
  const auto& shape = graph.type(classes).shape;
  if (!choice || !shape || shape->size() != 1) return std::nullopt;
  if (!(shape->front() == ir::element_count(*graph.type(choice->indices).shape))) return std::nullopt;
  // Without samples a sort is possible as it is, and is wanted unless the rows of each class were counted.
  if (!graph.type(classes).batch.has_batch() && !are_counted(graph, *choice)) return std::nullopt;
  std::vector<ValueId> operands = class_places(graph, *choice, where);
  Dim rows = 0;
  for (const ValueId each : operands) rows = rows + rows_of(graph, each);
  operands.insert(operands.begin(), choice->indices);
  const std::array names = {name};
  const TaskId task = graph.add_task(graph.foreign_op(kSortedPlaces), operands, {}, names, where);
  ir::ValueType type;
  type.dtype = DType::kI64;
  type.shape = {rows};
  const ValueId places = graph.outputs(task)[0];
  graph.set_type(places, std::move(type));
  return places;
}

}  // namespace rannc::frontend
