#include "passes/loss/widen_losses.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/op/op.h"

namespace rannc::passes {

namespace {

using ir::DType;
using ir::Graph;

bool is_narrow(const Graph& graph, ValueId value) {
  const DType dtype = graph.type(value).dtype;
  return ir::sum_dtype(dtype) != dtype;
}

class Widener {
 public:
  explicit Widener(Graph& graph) : graph_(graph) {}

  // The same number in its sum's type. What it is made of is made first, so that nothing here is as deep as the graph.
  ValueId widened(ValueId numerator) {
    std::vector<ValueId> open = {numerator};
    while (!open.empty()) {
      const ValueId value = open.back();
      const size_t before = open.size();
      if (!wide_.contains(value) && carries_sum(value)) {
        for (const ValueId operand : graph_.inputs(graph_.producer(value))) {
          if (operand.valid() && is_narrow(graph_, operand) && !wide_.contains(operand)) open.push_back(operand);
        }
      }
      if (open.size() > before) continue;
      open.pop_back();
      if (!wide_.contains(value)) wide_.emplace(value, made_again(value));
    }
    return wide_.at(numerator);
  }

 private:
  // Whether a value is derived only from sums. Tasks on single samples are left unchanged.
  bool carries_sum(ValueId value) const {
    const TaskId task = graph_.producer(value);
    if (!task.valid() || graph_.outputs(task).size() != 1 || !graph_.op(task).known()) return false;
    const ir::ValueType& type = graph_.type(value);
    const bool one = type.shape && ir::element_count(*type.shape) == ir::Dim(1) && !type.batch.has_batch();
    const ir::Attributes& attributes = graph_.attributes(task);
    return (one || type.batch.is_partial()) &&
           std::none_of(attributes.begin(), attributes.end(),
                        [](const auto& entry) { return std::holds_alternative<ir::Body>(entry.second); });
  }

  ValueId made_again(ValueId value) {
    if (!carries_sum(value)) return cast(value);
    const TaskId task = graph_.producer(value);
    std::vector<ValueId> operands;
    for (const ValueId operand : graph_.inputs(task)) {
      const auto found = operand.valid() ? wide_.find(operand) : wide_.end();
      operands.push_back(found == wide_.end() ? operand : found->second);
    }
    ir::Attributes attributes = graph_.attributes(task);
    if (const auto dtype = attributes.dtype("dtype")) attributes.set("dtype", ir::sum_dtype(*dtype));
    const TaskId made =
        graph_.add_task(graph_.op(task), operands, std::move(attributes), {{name(value)}}, graph_.location(task));
    const ValueId result = graph_.outputs(made)[0];
    if (!ir::infer_types(graph_, made).ok() || is_narrow(graph_, result)) return cast(value);
    return result;
  }

  ValueId cast(ValueId value) {
    const TaskId producer = graph_.producer(value);
    const ValueId made = graph_.add(ir::core("cast"), {value}, {{"dtype", ir::sum_dtype(graph_.type(value).dtype)}},
                                    name(value), producer.valid() ? graph_.location(producer) : Location{});
    const auto typed = ir::infer_types(graph_, graph_.producer(made));
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
    return made;
  }

  std::string name(ValueId value) const {
    return std::string(graph_.value(value).name) + "." + std::string(str(ir::sum_dtype(graph_.type(value).dtype)));
  }

  Graph& graph_;
  std::unordered_map<ValueId, ValueId> wide_;
};

}  // namespace

Result<Outcome> WidenLosses::run(Graph& graph, PassContext&) const {
  std::vector<ir::LossTerm> terms = graph.losses();
  Widener widener(graph);
  Outcome outcome;
  for (ir::LossTerm& term : terms) {
    if (!is_narrow(graph, term.numerator)) continue;
    term.numerator = widener.widened(term.numerator);
    outcome.changed = true;
  }
  if (outcome.changed) graph.set_losses(std::move(terms));
  return outcome;
}

}  // namespace rannc::passes
