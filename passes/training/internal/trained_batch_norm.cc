#include "passes/training/internal/trained_batch_norm.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

namespace {

using ir::ValueKind;

constexpr size_t kMeanOperand = 3;  // operand, before that of the variance
constexpr std::array<std::string_view, 2> kTrainingMode = {"running mean", "running variance"};

bool is_stored(ValueKind kind) {
  return kind == ValueKind::kConstant || kind == ValueKind::kParameter || kind == ValueKind::kBuffer;
}

/// Checks that no other task reads the statistics, because it would read values that training changes.
Result<void> check_statistics(const ir::Graph& graph, TaskId task, size_t which) {
  const ValueId value = graph.inputs(task)[kMeanOperand + which];
  const std::string what =
      fmt::format("a batch normalisation cannot train whose {} %{}", kTrainingMode[which], graph.value(value).name);
  if (!is_stored(graph.kind(value))) {
    return error(graph.location(task), what + " is computed or an input; it must be a stored tensor");
  }
  for (const ir::Graph::Use use : graph.uses(value)) {
    if (use.task == task && use.operand == kMeanOperand + which) continue;
    return error(graph.location(task), what + " has other readers")
        .note(
            fmt::format("task #{} {} (node '{}') reads it as operand {}; if a module is called twice, no file records "
                        "which call updates its running statistics",
                        use.task.index(), graph.op(use.task).name, graph.location(use.task).node, use.operand),
            graph.location(use.task))
        .note("--train-batch-norm=PATTERN changes only what PATTERN matches");
  }
  bool given = false;
  ir::for_each_result(graph, [&](ValueId result) { given = given || result == value; });
  if (given) return error(graph.location(task), what + " is an output of the model");
  return {};
}

Result<ir::Statistics> train(ir::Rewriter& rewriter, const ir::Graph& from, TaskId old, double momentum) {
  ir::Graph& to = rewriter.graph();
  const ir::Graph::Task task = from.task(old);
  std::vector<ValueId> operands;
  for (const ValueId input : task.inputs) operands.push_back(rewriter.map(input));
  ir::Attributes attributes = task.attributes;
  attributes.set("momentum", momentum);
  attributes.set("training", true);
  const std::string name(from.value(task.outputs[0]).name);
  const std::array names = {name, name + ".mean", name + ".variance"};
  const TaskId made = to.add_task(*task.op, operands, std::move(attributes), names, task.location);
  RANNC_TRY(ir::infer_types(to, made));
  rewriter.replace(task.outputs[0], to.outputs(made)[0]);
  return ir::Statistics{to.outputs(made)[1], to.outputs(made)[2], operands[kMeanOperand], operands[kMeanOperand + 1]};
}

void report(const ir::Graph& graph, TaskId task, double momentum, PassContext& context) {
  const std::string name(graph.value(graph.outputs(task)[0]).name);
  const auto statistic = [&](size_t which) { return graph.value(graph.inputs(task)[kMeanOperand + which]).name; };
  context.remarks.push_back(
      {graph.location(task), fmt::format("batch normalisation '{}' trains: its running statistics '{}' and '{}' follow "
                                         "those of the mini-batches with momentum {:.6g}",
                                         name, statistic(0), statistic(1), momentum)});
  if (momentum > 0) return;
  context.open.push_back(
      {graph.location(task), fmt::format("running statistics of '{}' have momentum 0 and stay as they "
                                         "are, as PyTorch exports momentum=None: "
                                         "--batch-norm-momentum sets another",
                                         name)});
}

}  // namespace

bool is_batch_norm(const ir::Graph& graph, TaskId task) {
  static const ir::Ops kBatchNorm{"batch_norm"};
  return kBatchNorm.contains(graph.op(task));
}

bool has_fixed_statistics(const ir::Graph& graph, TaskId task) {
  return is_batch_norm(graph, task) && !graph.op(task).depends_on_training(graph.attributes(task)) &&
         graph.outputs(task).size() == 1;
}

Result<bool> train_batch_norms(ir::Graph& graph, const TrainedBatchNorms& request, PassContext& context) {
  const auto wanted = [&](TaskId task) { return has_fixed_statistics(graph, task) && request.wanted(task); };
  bool any = false;
  for (const TaskId task : graph.tasks()) {
    if (!wanted(task)) continue;
    any = true;
    for (size_t which = 0; which < kTrainingMode.size(); ++which) RANNC_TRY(check_statistics(graph, task, which));
  }
  if (!any) return false;
  ir::Rewriter rewriter(graph);
  std::vector<ir::Statistics> statistics;
  for (const TaskId task : graph.tasks()) {
    if (!wanted(task)) {
      rewriter.copy(task);
      continue;
    }
    const ir::OpAttributes attributes(graph.op(task), graph.attributes(task));
    const double momentum = request.momentum.value_or(attributes.number("momentum"));
    RANNC_ASSIGN(statistics.emplace_back(), train(rewriter, graph, task, momentum));
    report(graph, task, momentum, context);
  }
  ir::Graph made = std::move(rewriter).finish();
  for (const ir::Statistics& each : statistics) {
    made.set_kind(each.running_mean, ValueKind::kBuffer);
    made.set_kind(each.running_variance, ValueKind::kBuffer);
    made.add_statistics(each);
  }
  graph = std::move(made);
  return true;
}

}  // namespace rannc::passes
