// Cuts the joint graph of a stage into functions.
#include "ir/plan/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/graph/byte_count.h"
#include "ir/graph/execution_frequency.h"
#include "ir/internal/text_writer.h"
#include "ir/op/op.h"

namespace rannc::ir {

namespace {

using Values = std::set<ValueId>;
using Kind = FunctionKind;

std::vector<ValueId> listed(const Values& values) { return {values.begin(), values.end()}; }

class Cutter {
 public:
  Cutter(const Joint& joint, const std::optional<std::vector<ValueId>>& kept)
      : joint_(joint), kept_(kept), graph_(joint.graph) {
    table_.place = function_places(joint_);
  }

  FunctionTable cut() && {
    for (const TaskId task : graph_.tasks()) {
      const Kind place = table_.place[task.index()];
      table_[place].tasks.push_back(task);
      if (place == Kind::kInput || place == Kind::kWeight) table_[Kind::kBackward].tasks.push_back(task);
    }
    find_saved();
    forward();
    rebuild();
    add_sums();
    backward();
    return std::move(table_);
  }

 private:
  /// The function that makes a value; P for parameters, buffers and constants; nothing for inputs and random inputs.
  std::optional<Kind> maker(ValueId value) const {
    const TaskId task = graph_.producer(value);
    if (task.valid()) return table_.place[task.index()];
    const ValueKind kind = graph_.kind(value);
    if (kind == ValueKind::kInput || kind == ValueKind::kRandomInput) return std::nullopt;
    return Kind::kLoad;
  }
  bool is_fixed(ValueId value) const { return maker(value) == Kind::kLoad || maker(value) == Kind::kStep; }

  template <class F>
  void each_operand(const std::vector<TaskId>& tasks, F&& f) const {
    for (const TaskId task : tasks) {
      const auto inputs = graph_.inputs(task);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (reads_operand(graph_, task, i)) f(inputs[i]);
      }
    }
  }

  void find_saved() {
    Values saved, pending;
    for (const auto& output : joint_.outputs) seeds_.insert(output.gradient);
    each_operand(table_[Kind::kBackward].tasks, [&](ValueId value) {
      const bool before = maker(value) == Kind::kForward || !maker(value);
      if (before && !seeds_.contains(value)) saved.insert(value);
    });
    each_operand(table_[Kind::kWeight].tasks, [&](ValueId value) {
      if (maker(value) == Kind::kInput || seeds_.contains(value)) pending.insert(value);
    });
    table_.saved = listed(saved);
    table_.pending = listed(pending);
  }

  void forward() {
    StageFunction& forward = table_[Kind::kForward];
    Values arguments;
    each_operand(forward.tasks, [&](ValueId value) {
      if (!maker(value)) arguments.insert(value);
    });
    for (const ValueId value : table_.saved) {
      if (!maker(value)) arguments.insert(value);
    }
    forward.arguments = listed(arguments);
    forward.results = graph_.outputs();
    for (const Statistics& each : graph_.statistics()) {
      forward.results.push_back(each.mean);
      forward.results.push_back(each.variance);
    }
    forward.kept = table_.saved;
  }

  void rebuild() {
    table_.recompute = kept_.value_or(table_.saved);
    if (!kept_) return;
    const Values kept(kept_->begin(), kept_->end());
    StageFunction& rebuild = table_[Kind::kRebuild];
    Values arguments;
    std::set<TaskId> tasks;
    std::vector<ValueId> open;
    for (const ValueId value : table_.saved) {
      if (!kept.contains(value)) open.push_back(value);
    }
    rebuild.kept = table_.rebuilt = open;
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (kept.contains(value) || !maker(value)) {
        arguments.insert(value);
      } else if (maker(value) == Kind::kForward && tasks.insert(graph_.producer(value)).second) {
        each_operand({graph_.producer(value)}, [&](ValueId input) { open.push_back(input); });
      }
    }
    rebuild.tasks = {tasks.begin(), tasks.end()};
    rebuild.arguments = listed(arguments);
  }

  /// Adds each sum to the function that makes its terms.
  void add_sums() {
    Values summed;
    for (const Joint::ParameterGradient& part : joint_.gradients) summed.insert(part.gradient);
    for (const TaskId task : table_[Kind::kStepEnd].tasks) {
      if (graph_.op(task).makes_whole()) summed.insert(graph_.inputs(task)[0]);
    }
    for (const ValueId value : summed) {
      const auto made = maker(value);
      const bool by_weight = made == Kind::kWeight;
      const bool at_end = made == Kind::kStepEnd || (made && is_fixed(value));
      if (at_end) {
        table_[Kind::kStepEnd].results.push_back(value);
      } else {
        table_[by_weight ? Kind::kWeight : Kind::kInput].added.push_back(value);
        table_[Kind::kBackward].added.push_back(value);
      }
    }
  }

  void backward() {
    StageFunction &input = table_[Kind::kInput], &weight = table_[Kind::kWeight], &both = table_[Kind::kBackward];
    for (const auto& each : joint_.inputs) input.results.push_back(each.gradient);
    both.results = input.results;
    input.kept = table_.pending;
    const auto arguments = [&](const StageFunction& function, auto&& own) {
      Values found;
      each_operand(function.tasks, [&](ValueId value) {
        if (!is_fixed(value) && !own(maker(value))) found.insert(value);
      });
      for (const ValueId value : function.leaving()) {
        if (!is_fixed(value) && !own(maker(value))) found.insert(value);
      }
      return listed(found);
    };
    input.arguments = arguments(input, [](auto made) { return made == Kind::kInput; });
    weight.arguments = arguments(weight, [](auto made) { return made == Kind::kWeight; });
    both.arguments = arguments(both, [](auto made) { return made == Kind::kInput || made == Kind::kWeight; });
    StageFunction& end = table_[Kind::kStepEnd];
    Values totals;
    for (const TaskId task : end.tasks) {
      if (graph_.op(task).makes_whole()) totals.insert(graph_.inputs(task)[0]);
    }
    end.arguments = listed(totals);
  }

  const Joint& joint_;
  const std::optional<std::vector<ValueId>>& kept_;
  const Graph& graph_;
  Values seeds_;
  FunctionTable table_;
};

// --- text

void append_list(std::string& text, const Graph& graph, std::string_view word, const std::vector<ValueId>& values) {
  if (values.empty()) return;
  fmt::format_to(std::back_inserter(text), " {} [", word);
  for (size_t i = 0; i < values.size(); ++i) {
    text += i == 0 ? "" : ", ";
    append_name(text, '%', graph.value(values[i]).name);
    const ValueType& type = graph.type(values[i]);
    if (type.shape) {
      text += ' ';
      text += byte_count(type).str();
    }
  }
  text += ']';
}

}  // namespace

std::string_view letter(FunctionKind kind) {
  constexpr std::string_view kLetters[kFunctionKinds] = {"P", "P", "F", "R", "I", "W", "B", "E"};
  return kLetters[static_cast<size_t>(kind)];
}

std::shared_ptr<const StageFunctions> with_kept(const StageFunctions& stage, std::optional<std::vector<ValueId>> kept) {
  const Joint& from = stage.joint;
  Joint joint{from.graph.clone(), from.origins, from.seeds, from.outputs, from.inputs, from.gradients};
  return std::make_shared<const StageFunctions>(StageFunctions{std::move(joint), std::move(kept)});
}

bool equal(const StageFunctions& a, const StageFunctions& b) { return equal(a.joint, b.joint) && a.kept == b.kept; }

std::vector<FunctionKind> function_places(const Joint& joint) {
  constexpr Kind kOfPhase[] = {Kind::kForward, Kind::kInput, Kind::kWeight};
  const Graph& graph = joint.graph;
  const std::vector<Frequency> often = execution_frequency(graph);
  std::vector<bool> late(graph.value_count());
  std::vector<Kind> found;
  for (const TaskId task : graph.tasks()) {
    const auto inputs = graph.inputs(task);
    const bool after = graph.op(task).makes_whole() || std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) {
                         return input.valid() && late[input.index()];
                       });
    const Frequency each = often[task.index()];
    for (const ValueId output : graph.outputs(task)) late[output.index()] = after;
    if (each == Frequency::kMicroBatch) {
      found.push_back(kOfPhase[static_cast<size_t>(joint.origins[task.index()].phase)]);
    } else {
      found.push_back(after ? Kind::kStepEnd : each == Frequency::kLoad ? Kind::kLoad : Kind::kStep);
    }
  }
  return found;
}

std::vector<ValueId> StageFunction::leaving() const {
  std::vector<ValueId> all = results;
  all.insert(all.end(), kept.begin(), kept.end());
  all.insert(all.end(), added.begin(), added.end());
  return all;
}

FunctionTable function_table(const StageFunctions& stage) { return Cutter(stage.joint, stage.kept).cut(); }

FunctionTable function_table(const Joint& joint, const std::vector<ValueId>& kept) { return Cutter(joint, kept).cut(); }

std::vector<ValueId> kept_by_whole_recompute(const Joint& joint) {
  const FunctionTable table = function_table(joint, {});
  std::vector<ValueId> kept;
  for (const ValueId value : table[Kind::kRebuild].arguments) {
    if (joint.graph.kind(value) == ValueKind::kInput) kept.push_back(value);
  }
  return kept;
}

bool recomputes_selectively(const StageFunctions& stage) {
  return stage.kept && *stage.kept != kept_by_whole_recompute(stage.joint);
}

std::string print_functions(const StageFunctions& stage, size_t index) {
  constexpr std::string_view kNames[kFunctionKinds] = {"P.load", "P.step", "F", "R", "I", "W", "B", "E"};
  const FunctionTable table = function_table(stage);
  std::string text;
  for (size_t kind = 0; kind < kFunctionKinds; ++kind) {
    const StageFunction& function = table.functions[kind];
    if (function.tasks.empty() && function.added.empty()) continue;
    fmt::format_to(std::back_inserter(text), "function @s{}.{} tasks ", index, kNames[kind]);
    std::vector<uint32_t> tasks;
    for (const TaskId task : function.tasks) tasks.push_back(task.index());
    append_indices(text, "#", tasks);
    const Graph& graph = stage.joint.graph;
    append_list(text, graph, "arguments", function.arguments);
    append_list(text, graph, "results", function.results);
    append_list(text, graph, "keeps", function.kept);
    append_list(text, graph, "adds", function.added);
    text += '\n';
  }
  return text;
}

}  // namespace rannc::ir
