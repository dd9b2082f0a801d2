#include "ir/state/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/op/op.h"

namespace rannc::ir {

std::vector<bool> makes_statistics(const Graph& graph) {
  std::vector<bool> makes(graph.task_count(), false);
  for (const Statistics& each : graph.statistics()) {
    const TaskId maker = graph.producer(each.mean);
    if (maker.valid()) makes[maker.index()] = true;
  }
  return makes;
}

std::optional<Dim> averaged_over(const Graph& graph, const Statistics& statistics) {
  const TaskId maker = graph.producer(statistics.mean);
  if (!maker.valid() || graph.inputs(maker).empty() || !graph.inputs(maker)[0].valid()) return std::nullopt;
  const auto& all = graph.type(graph.inputs(maker)[0]).shape;
  const auto& means = graph.type(statistics.mean).shape;
  if (!all || !means) return std::nullopt;
  return exact_div(element_count(*all), element_count(*means));
}

std::optional<double> momentum_of(const Graph& graph, const Statistics& statistics) {
  const TaskId maker = graph.producer(statistics.mean);
  if (!maker.valid()) return std::nullopt;
  const OpAttributes attributes(graph.op(maker), graph.attributes(maker));
  const Attribute* value = attributes.declares("momentum") ? attributes.find("momentum") : nullptr;
  const auto* momentum = value != nullptr ? std::get_if<double>(value) : nullptr;
  return momentum != nullptr ? std::optional(*momentum) : std::nullopt;
}

std::optional<bool> synchronised(const Graph& graph, TaskId task) {
  const OpInfo& op = graph.op(task);
  const Attributes& given = graph.attributes(task);
  if (op.attribute(kSynchronised) == nullptr || !op.depends_on_training(given)) return std::nullopt;
  return OpAttributes(op, given).flag(kSynchronised);
}

std::optional<Statistics> statistics_by_entry(const Graph& graph, TaskId task) {
  const OpInfo& op = graph.op(task);
  const auto inputs = graph.inputs(task), outputs = graph.outputs(task);
  std::vector<ValueId> made, running;
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!op.results[i].runs_on) continue;
    made.push_back(i < outputs.size() ? outputs[i] : ValueId());
    running.push_back(*op.results[i].runs_on < inputs.size() ? inputs[*op.results[i].runs_on] : ValueId());
    if (!running.back().valid() || graph.kind(running.back()) != ValueKind::kBuffer) return std::nullopt;
  }
  if (made.empty() || !op.depends_on_training(graph.attributes(task))) return std::nullopt;
  RANNC_CHECK(made.size() == 2) << op.name << " has a mean and a variance";
  return Statistics{made[0], made[1], running[0], running[1]};
}

namespace {

class StatisticsVerifier {
 public:
  explicit StatisticsVerifier(const Graph& graph) : graph_(graph) {}

  std::vector<Diagnostic> verify(std::span<const ValueId> buffers) {
    for (const Statistics& each : graph_.statistics()) check(each);
    std::set<TaskId> readers;
    for (const ValueId buffer : buffers) {
      graph_.for_each_use(buffer, [&](Graph::Use use) { readers.insert(use.task); });
    }
    for (const TaskId task : readers) check_entry(task);
    return std::move(found_);
  }

 private:
  bool exists(ValueId value) const { return value.valid() && value.index() < graph_.value_count(); }
  std::string name(ValueId value) const { return "%" + std::string(graph_.value(value).name); }
  void add(TaskId task, std::string message) {
    found_.push_back(error(task.valid() ? graph_.location(task) : Location{}, std::move(message), "G18"));
  }

  void check(const Statistics& each) {
    for (const ValueId value : {each.mean, each.variance, each.running_mean, each.running_variance}) {
      if (!exists(value)) return add({}, "running statistics name a value that is not of the graph");
    }
    const TaskId maker = graph_.producer(each.mean);
    const std::string pair = name(each.running_mean) + " and " + name(each.running_variance);
    if (!maker.valid() || graph_.producer(each.variance) != maker || each.mean == each.variance)
      return add(maker, fmt::format("{} become {} and {}, which are not two results of one task", pair, name(each.mean),
                                    name(each.variance)));
    listed_.insert(maker);
    if (!averaged_over(graph_, each))
      add(maker,
          fmt::format("{}: over how many elements {} is taken does not follow from shapes", pair, name(each.mean)));
    for (const ValueId made : {each.mean, each.variance}) {
      const auto& outputs = graph_.outputs();
      const bool given = std::find(outputs.begin(), outputs.end(), made) != outputs.end();
      if (given || graph_.has_uses(made))
        add(maker, fmt::format("{} is of one micro-batch; nothing but {} may read it", name(made), pair));
    }
    check_leaf(each.running_mean, each.mean);
    check_leaf(each.running_variance, each.variance);
    const auto momentum = momentum_of(graph_, each);
    if (!momentum)
      add(maker, fmt::format("{}: {} has no momentum", pair, graph_.op(maker).name));
    else if (!(*momentum >= 0 && *momentum <= 1))
      add(maker, fmt::format("{} have a momentum of {}, outside of [0, 1]", pair, *momentum));
  }

  void check_leaf(ValueId leaf, ValueId made) {
    const TaskId maker = graph_.producer(made);
    const auto read = graph_.inputs(maker);
    if (std::find(read.begin(), read.end(), leaf) == read.end())
      add(maker, fmt::format("{} is not read by the task that makes {}", name(leaf), name(made)));
    const ValueKind kind = graph_.kind(leaf);
    if (kind != ValueKind::kBuffer)
      add(graph_.producer(leaf),
          fmt::format("{} is of kind {}; running statistics are buffers", name(leaf), str(kind)));
    if (graph_.type(leaf).dtype != graph_.type(made).dtype || graph_.type(leaf).shape != graph_.type(made).shape)
      add(maker, fmt::format("{} and {} differ in type", name(leaf), name(made)));
  }

  // Without this check a pass could lose statistics unnoticed, and the buffers would never be updated.
  void check_entry(TaskId task) {
    if (listed_.contains(task) || !has_operands(task)) return;
    const auto lost = statistics_by_entry(graph_, task);
    if (!lost) return;
    add(task, fmt::format("task #{} {} trains with buffers {} and {}, but no `statistics` update them; where an older "
                          "rannc wrote this, compile the model again",
                          task.index(), graph_.op(task).name, name(lost->running_mean), name(lost->running_variance)));
  }

  // Otherwise G2 or G3 report it.
  bool has_operands(TaskId task) const {
    const auto inputs = graph_.inputs(task);
    return std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) { return !input.valid() || exists(input); });
  }

  const Graph& graph_;
  std::set<TaskId> listed_;  // tasks that compute statistics
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> faults_of_statistics(const Graph& graph, std::span<const ValueId> buffers) {
  return StatisticsVerifier(graph).verify(buffers);
}

}  // namespace rannc::ir
