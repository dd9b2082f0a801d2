#include "ir/graph/execution_frequency.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ir/op/op.h"
#include "ir/state/statistics.h"

namespace rannc::ir {

namespace {

class Finder {
 public:
  explicit Finder(const Graph& graph)
      : graph_(graph),
        of_value_(graph.value_count(), Frequency::kLoad),
        of_type_(graph.type_count()),
        type_known_(graph.type_count()),
        makes_statistics_(makes_statistics(graph)) {}

  std::vector<Frequency> run() {
    for (const ValueId value : graph_.values()) of_value_[value.index()] = of_leaf(value);
    std::vector<Frequency> found;
    found.reserve(graph_.task_count());
    for (const TaskId task : graph_.tasks()) {
      found.push_back(of_task(task));
      for (const ValueId output : graph_.outputs(task)) of_value_[output.index()] = found.back();
    }
    return found;
  }

 private:
  Frequency of_leaf(ValueId value) const {
    switch (graph_.kind(value)) {
      case ValueKind::kInput:
      case ValueKind::kRandomInput:
        return Frequency::kMicroBatch;
      case ValueKind::kParameter:
      case ValueKind::kBuffer:
        return Frequency::kStep;
      default:
        return Frequency::kLoad;
    }
  }

  Frequency of_symbols(const std::set<std::string>& symbols) const {
    if (symbols.contains(graph_.batch_symbol())) return Frequency::kMicroBatch;
    return symbols.empty() ? Frequency::kLoad : Frequency::kStep;
  }

  // Symbolic sizes come from inputs.
  Frequency of_type(ValueId value) {
    const uint32_t number = graph_.type_number(value);
    if (type_known_[number]) return of_type_[number];
    std::set<std::string> symbols;
    const ValueType& type = graph_.type(value);
    for (const Dim& dim : type.shape.value_or(Shape{})) dim.collect_symbols(symbols);
    for (const Dim& dim : type.contents.value_or(Contents{})) dim.collect_symbols(symbols);
    type_known_[number] = true;
    return of_type_[number] = of_symbols(symbols);
  }

  static void collect_symbols(const Graph& body, std::set<std::string>& symbols) {
    for (const ValueId value : body.values()) {
      for (const Dim& dim : body.type(value).shape.value_or(Shape{})) dim.collect_symbols(symbols);
    }
  }

  Frequency of_attributes(TaskId task) {
    const uint32_t number = graph_.attributes_number(task);
    if (number >= of_attributes_.size()) of_attributes_.resize(number + 1);
    if (of_attributes_[number]) return *of_attributes_[number];
    std::set<std::string> symbols;
    for (const auto& [name, value] : graph_.attributes(task)) {
      if (const auto* body = std::get_if<Body>(&value)) collect_symbols(body->graph(), symbols);
      if (const auto* dim = std::get_if<Dim>(&value)) dim->collect_symbols(symbols);
      if (const auto* list = std::get_if<Shape>(&value)) {
        for (const Dim& dim : *list) dim.collect_symbols(symbols);
      }
    }
    of_attributes_[number] = of_symbols(symbols);
    return *of_attributes_[number];
  }

  Frequency of_task(TaskId task) {
    const OpInfo& op = graph_.op(task);
    if (op.makes_whole()) return Frequency::kStep;
    Frequency often = makes_statistics_[task.index()] ? Frequency::kMicroBatch : Frequency::kLoad;
    const auto inputs = graph_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (reads_operand(graph_, task, i)) often = std::max(often, of_value_[inputs[i].index()]);
    }
    for (const ValueId output : graph_.outputs(task)) often = std::max(often, of_type(output));
    return std::max(often, of_attributes(task));
  }

  const Graph& graph_;
  std::vector<Frequency> of_value_;
  std::vector<Frequency> of_type_;
  std::vector<std::optional<Frequency>> of_attributes_;
  std::vector<bool> type_known_;
  std::vector<bool> makes_statistics_;
};

}  // namespace

bool reads_operand(const Graph& graph, TaskId task, size_t operand) {
  const OpInfo& op = graph.op(task);
  return graph.inputs(task)[operand].valid() && !(op.known() && op.operand(operand).role == Role::kShape);
}

std::vector<Frequency> execution_frequency(const Graph& graph) { return Finder(graph).run(); }

}  // namespace rannc::ir
