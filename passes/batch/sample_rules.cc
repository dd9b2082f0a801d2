#include "passes/batch/sample_rules.h"

#include <algorithm>

#include "ir/dim/dim_bounds.h"
#include "ir/match/match.h"
#include "ir/op/interval.h"

namespace rannc::passes {

using ir::Dim;
using ir::Graph;

Result<void> check_sample_index(const Graph& graph, TaskId task) {
  const ir::OpInfo& op = graph.op(task);
  if (op.picks == nullptr) return {};
  const auto in = graph.inputs(task);
  const ir::ValueType& data = graph.type(in[0]);
  if (!data.batch.has_batch()) return {};
  const std::vector<const ir::ValueType*> types = ir::type_list(graph, in);
  const auto component = op.picks({op, types, graph.attributes(task), graph.batch_symbol()}, data.batch.axis);
  if (!component) return {};
  const auto index = ir::Intervals(graph).of(in[1], *component);
  const Dim& inner = data.batch.inner;
  if (index && data.batch.outer == Dim(1) && index->factor == inner && ir::never_negative(index->low) &&
      ir::never_negative(inner - Dim(1) - index->high)) {
    return {};
  }
  return error(graph.location(task), op.name + " picks samples along axis " + std::to_string(data.batch.axis) + " of " +
                                         ir::str(*data.shape) + " by %" + std::string(graph.value(in[1]).name) +
                                         ", which is not provably each sample's own index");
}

namespace {

// Outputs of micro-batches are concatenated along their batch axis.
Result<void> check_given(const Graph& graph, TaskId task, ValueId sum) {
  const auto is_in = [sum](const std::vector<ValueId>& values) {
    return std::find(values.begin(), values.end(), sum) != values.end();
  };
  if (!is_in(graph.outputs()) || is_in(graph.totals().sums)) return {};
  return error(graph.location(task), std::string(graph.op(task).name) + " makes %" +
                                         std::string(graph.value(sum).name) +
                                         " a sum over the samples of a micro-batch, which can be a loss, but not an "
                                         "output");
}

/// The first output that can be a loss: one float number, which no sample has for itself. Invalid where none can.
ValueId possible_loss(const Graph& graph) {
  for (const ValueId output : graph.outputs()) {
    const ir::ValueType& type = graph.type(output);
    if (!ir::is_float(type.dtype) || type.batch.has_batch()) continue;
    if (!type.shape || ir::element_count(*type.shape) == Dim(1)) return output;
  }
  return {};
}

/// Another symbol that may count samples: one that stands alone on an axis of an input that has the batch symbol.
Diagnostic with_other_axis(Diagnostic failure, const Graph& graph) {
  for (const ValueId input : graph.inputs()) {
    const ir::ValueType& type = graph.type(input);
    if (!type.batch.has_batch() || !type.shape) continue;
    for (size_t axis = 0; axis < type.shape->size(); ++axis) {
      const Dim& dim = (*type.shape)[axis];
      if (!dim.is_symbol() || dim.symbol_name() == graph.batch_symbol()) continue;
      return std::move(failure).note("'" + graph.batch_symbol() + "' (axis " + std::to_string(type.batch.axis) +
                                     " of input '" + std::string(graph.value(input).name) +
                                     "') is assumed to count samples; if '" + dim.symbol_name() + "' (axis " +
                                     std::to_string(axis) + ") does, specify --batch-symbol " + dim.symbol_name());
    }
  }
  return failure;
}

// Adds hints for a sum that is the model's own loss, and for another batch axis.
Diagnostic with_advice(Diagnostic failure, const Graph& graph) {
  failure = with_other_axis(std::move(failure), graph);
  const ValueId loss = graph.losses().empty() ? possible_loss(graph) : ValueId();
  if (!loss.valid()) return failure;
  return std::move(failure).note(
      "if output '" + std::string(graph.value(loss).name) +
      "' is the model's loss, train it with --loss 'in_graph(output=" + std::string(graph.value(loss).name) + ")'");
}

// The operand whose samples, or whose sum over them, the task mixes.
std::string what_is_mixed(const Graph& graph, TaskId task) {
  for (const ValueId in : graph.inputs(task)) {
    if (!in.valid()) continue;
    const ir::ValueType& type = graph.type(in);
    if (type.batch.has_batch()) return " over axis " + std::to_string(type.batch.axis) + " of " + ir::str(*type.shape);
    if (type.batch.is_partial()) return " of %" + std::string(graph.value(in).name) + ", a sum over samples,";
  }
  return "";
}

}  // namespace

Result<void> check_no_mix(const Graph& graph, TaskId task) {
  for (const ValueId output : graph.outputs(task)) {
    if (graph.type(output).batch.is_partial()) {
      auto checked = check_given(graph, task, output);
      if (!checked.ok()) return with_advice(checked.diagnostic(), graph);
    }
    if (graph.type(output).batch.mix != ir::Mix::kMixed) continue;
    return with_advice(error(graph.location(task), graph.op(task).name + what_is_mixed(graph, task) +
                                                       " would mix the samples of a micro-batch"),
                       graph);
  }
  return {};
}

namespace {

/// Finds values that depend on the number of samples.
class CountedSamples {
 public:
  explicit CountedSamples(const Graph& graph)
      : graph_(graph), intervals_(graph), counted_(graph.value_count()), needed_(graph.value_count()) {}

  Result<void> check() {
    if (graph_.batch_symbol().empty()) return {};
    find_needed();
    for (const TaskId task : graph_.tasks()) {
      if (graph_.op(task).known() && is_needed(task)) RANNC_TRY(check(task));
    }
    return {};
  }

  std::vector<ValueId> outputs() {
    if (graph_.batch_symbol().empty()) return {};
    for (const TaskId task : graph_.tasks()) {
      if (graph_.op(task).known()) (void)check(task).ok();
    }
    std::vector<ValueId> found;
    for (const ValueId output : graph_.outputs()) {
      if (is_counted(output)) found.push_back(output);
    }
    return found;
  }

 private:
  /// What is left of arithmetic whose result the importer knows is dead.
  void find_needed() {
    for (const ValueId output : graph_.outputs()) needed_[output.index()] = true;
    for (const ir::LossTerm& term : graph_.losses()) needed_[term.numerator.index()] = true;
    for (uint32_t i = graph_.task_count(); i-- > 0;) {
      if (!is_needed(TaskId(i))) continue;
      for (const ValueId operand : graph_.inputs(TaskId(i))) {
        if (operand.valid()) needed_[operand.index()] = true;
      }
    }
  }

  bool is_needed(TaskId task) const {
    const auto outputs = graph_.outputs(task);
    return std::any_of(outputs.begin(), outputs.end(), [this](ValueId v) { return needed_[v.index()]; });
  }

  Result<void> check(TaskId task) {
    const ValueId from = counted_operand(task);
    if (!from.valid() ? !numbers_samples(task) : !still_counts(task)) return {};
    for (const ValueId output : graph_.outputs(task)) {
      const ir::ValueType& type = graph_.type(output);
      if (!ir::is_float(type.dtype)) {
        counted_[output.index()] = true;
      } else if (type.batch.has_batch()) {
        return refused(task, from, output);
      }
    }
    return {};
  }

  Diagnostic refused(TaskId task, ValueId from, ValueId output) const {
    const std::string made = from.valid() ? "%" + std::string(graph_.value(from).name) : "a size";
    return error(graph_.location(task),
                 graph_.op(task).name + " makes %" + std::string(graph_.value(output).name) +
                     ", which has samples, from " + made +
                     ", which depends on the number of samples or on a sample's index: these differ between a "
                     "micro-batch and the mini-batch");
  }

  bool uses_batch(const Dim& dim) const { return dim.uses(graph_.batch_symbol()); }

  bool is_counted(ValueId value) const {
    const ir::ValueType& type = graph_.type(value);
    const auto uses = [this](const Dim& dim) { return uses_batch(dim); };
    if (type.contents) return std::any_of(type.contents->begin(), type.contents->end(), uses);
    return counted_[value.index()] || type.batch.mix == ir::Mix::kCounted;
  }

  /// An operand whose data count; indices into samples have been looked through.
  ValueId counted_operand(TaskId task) const {
    const ir::OpInfo& op = graph_.op(task);
    const auto operands = graph_.inputs(task);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].valid() || !is_counted(operands[i])) continue;
      const ir::Role role = op.operand(i).role;
      const bool picks = role == ir::Role::kIndex && op.picks != nullptr && graph_.type(operands[0]).batch.has_batch();
      if (role != ir::Role::kSize && role != ir::Role::kShape && !picks) return operands[i];
    }
    return {};
  }

  /// Returns whether a task makes sample counts or indices from sizes alone.
  bool numbers_samples(TaskId task) const {
    static const ir::Ops kRange = "range", kFull = "full";
    const ir::OpInfo& op = graph_.op(task);
    if (kRange.contains(op)) return graph_.type(graph_.outputs(task)[0]).batch.has_batch();
    if (!kFull.contains(op)) return false;
    const ir::Attribute* const value = graph_.attributes(task).find("value");
    const auto* const size = value == nullptr ? nullptr : std::get_if<Dim>(value);
    return size != nullptr && uses_batch(*size);
  }

  /// Returns whether the results, like the operands, depend on the index of their sample.
  bool still_counts(TaskId task) {
    const ValueId made = graph_.outputs(task)[0];
    if (!ir::is_integer(graph_.type(made).dtype)) return true;
    const auto range = intervals_.of(made);
    if (!range || !(range->factor == Dim(0)) || uses_batch(range->low) || uses_batch(range->high)) return true;
    for (const ValueId operand : graph_.inputs(task)) {
      if (!operand.valid() || !is_counted(operand)) continue;
      const auto before = ir::is_integer(graph_.type(operand).dtype) ? intervals_.of(operand) : std::nullopt;
      if (!before || before->factor == Dim(0)) return true;
    }
    return false;
  }

  const Graph& graph_;
  ir::Intervals intervals_;
  std::vector<bool> counted_, needed_;
};

}  // namespace

Result<void> check_no_count(const Graph& graph) { return CountedSamples(graph).check(); }

std::vector<ValueId> counted_outputs(const Graph& graph) { return CountedSamples(graph).outputs(); }

}  // namespace rannc::passes
