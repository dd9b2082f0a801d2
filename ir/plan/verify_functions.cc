// Verifier of the functions of a stage. Rules:
//   H1  each task of the joint graph that is needed is in exactly one of P, F, I, W and E; B holds I and W
//   H2  a function reads its arguments, what P makes, and what it has made before; it makes its other results
//   H3  a saved value is made by F or is its argument, and I, W or B read it
//   H4  a pending value is made by I or is a seed, and W reads it
//   H5  R repeats tasks of F, from kept values and random inputs, and makes each saved value that F does not keep; a
//       tape is never kept for R
//   H6  each part of a parameter's gradient and each operand of a total is added once
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/op.h"
#include "ir/plan/functions.h"

namespace rannc::ir {

namespace {

using Kind = FunctionKind;
using ValueSet = std::set<ValueId>;

class FunctionVerifier {
 public:
  FunctionVerifier(const StageFunctions& stage, const FunctionTable& table)
      : stage_(stage), graph_(stage.joint.graph), table_(table) {}

  std::vector<Diagnostic> verify() {
    places();
    for (size_t kind = 0; kind < kFunctionKinds; ++kind) operands(static_cast<Kind>(kind));
    saved();
    pending();
    rebuild();
    sums();
    return std::move(found_);
  }

 private:
  void add(std::string message, const char* rule) { found_.push_back(error({}, std::move(message), rule)); }
  std::string name(ValueId value) const { return "%" + std::string(graph_.value(value).name); }

  void places() {
    std::vector<uint32_t> times(graph_.task_count());
    for (const Kind kind : {Kind::kLoad, Kind::kStep, Kind::kForward, Kind::kInput, Kind::kWeight, Kind::kStepEnd}) {
      for (const TaskId task : table_[kind].tasks) ++times[task.index()];
    }
    for (const TaskId task : graph_.tasks()) {
      if (times[task.index()] == 1) continue;
      add(fmt::format("task #{} is in {} functions", task.index(), times[task.index()]), "H1");
    }
    std::vector<TaskId> both = table_[Kind::kInput].tasks;
    both.insert(both.end(), table_[Kind::kWeight].tasks.begin(), table_[Kind::kWeight].tasks.end());
    std::sort(both.begin(), both.end());
    if (both != table_[Kind::kBackward].tasks) add("the tasks of B are not those of I and W", "H1");
  }

  /// Whether every function can read a value.
  bool is_everywhere(ValueId value) const {
    const TaskId maker = graph_.producer(value);
    if (maker.valid()) return table_.place[maker.index()] == Kind::kLoad || table_.place[maker.index()] == Kind::kStep;
    return graph_.kind(value) != ValueKind::kInput && graph_.kind(value) != ValueKind::kRandomInput;
  }

  void operands(Kind kind) {
    const StageFunction& function = table_[kind];
    ValueSet known(function.arguments.begin(), function.arguments.end());
    const auto expect = [&](ValueId value, const std::string& what) {
      if (known.contains(value) || is_everywhere(value)) return;
      add(fmt::format("{} {} {}, which it neither takes nor makes before", letter(kind), what, name(value)), "H2");
    };
    for (const TaskId task : function.tasks) {
      const auto inputs = graph_.inputs(task);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (reads_operand(graph_, task, i)) expect(inputs[i], fmt::format("reads, in task #{},", task.index()));
      }
      for (const ValueId output : graph_.outputs(task)) known.insert(output);
    }
    for (const ValueId value : function.leaving()) expect(value, "gives");
  }

  ValueSet read_by(std::initializer_list<Kind> kinds) const {
    ValueSet read;
    for (const Kind kind : kinds) {
      for (const TaskId task : table_[kind].tasks) {
        for (const ValueId input : graph_.inputs(task)) read.insert(input);
      }
      read.insert(table_[kind].results.begin(), table_[kind].results.end());
      read.insert(table_[kind].added.begin(), table_[kind].added.end());
    }
    return read;
  }

  bool made_by(ValueId value, Kind kind) const {
    const TaskId maker = graph_.producer(value);
    const auto& tasks = table_[kind].tasks;
    return maker.valid() ? std::binary_search(tasks.begin(), tasks.end(), maker)
                         : std::binary_search(table_[kind].arguments.begin(), table_[kind].arguments.end(), value);
  }

  void saved() {
    const ValueSet read = read_by({Kind::kInput, Kind::kWeight});
    for (const ValueId value : table_.saved) {
      if (!made_by(value, Kind::kForward)) add(name(value) + " is saved, but F does not make it", "H3");
      if (!read.contains(value)) add(name(value) + " is saved, but no backward pass reads it", "H3");
    }
    if (table_[Kind::kForward].kept != table_.saved) add("F does not keep what is saved", "H3");
  }

  void pending() {
    const ValueSet read = read_by({Kind::kWeight});
    for (const ValueId value : table_.pending) {
      if (!made_by(value, Kind::kInput)) add(name(value) + " is pending, but I does not make it", "H4");
      if (!read.contains(value)) add(name(value) + " is pending, but W does not read it", "H4");
    }
    if (table_[Kind::kInput].kept != table_.pending) add("I does not keep what is pending", "H4");
  }

  void rebuild() {
    const ValueSet kept(table_.recompute.begin(), table_.recompute.end());
    for (const ValueId value : kept) {
      if (!made_by(value, Kind::kForward)) add(name(value) + " is kept for R, but F does not make it", "H5");
      // A kept tape would hold memory of operands that R makes again.
      if (stage_.kept && is_tape(graph_, value)) add(name(value) + ", which is kept for R, is a tape", "H5");
    }
    for (const ValueId value : table_[Kind::kRebuild].arguments) {
      if (kept.contains(value) || graph_.kind(value) == ValueKind::kRandomInput) continue;
      add("R reads " + name(value) + ", which F does not keep", "H5");
    }
    const auto& forward = table_[Kind::kForward].tasks;
    for (const TaskId task : table_[Kind::kRebuild].tasks) {
      if (std::binary_search(forward.begin(), forward.end(), task)) continue;
      add(fmt::format("task #{} of R is not of F", task.index()), "H5");
    }
    std::vector<ValueId> expected;
    for (const ValueId value : table_.saved) {
      if (!kept.contains(value)) expected.push_back(value);
    }
    if (expected != table_.rebuilt || table_[Kind::kRebuild].kept != table_.rebuilt)
      add("R does not make exactly the saved values that F does not keep", "H5");
  }

  void sums() {
    std::map<ValueId, int> times;
    for (const Joint::ParameterGradient& part : stage_.joint.gradients) times[part.gradient] = 0;
    for (const TaskId task : table_[Kind::kStepEnd].tasks) {
      if (graph_.op(task).makes_whole()) times[graph_.inputs(task)[0]] = 0;
    }
    for (const Kind kind : {Kind::kInput, Kind::kWeight}) {
      for (const ValueId value : table_[kind].added) ++times[value];
    }
    for (const ValueId value : table_[Kind::kStepEnd].results) ++times[value];
    for (const auto& [value, count] : times) {
      if (count != 1) add(fmt::format("{} is added {} times", name(value), count), "H6");
    }
  }

  const StageFunctions& stage_;
  const Graph& graph_;
  const FunctionTable& table_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> verify(const StageFunctions& stage, const FunctionTable& table) {
  return FunctionVerifier(stage, table).verify();
}

}  // namespace rannc::ir
