// Lists what each program of a stage takes, returns and adds.
#include "ir/program/stage_programs.h"

#include <algorithm>
#include <set>

namespace rannc::ir {

namespace {

using Ids = std::vector<ValueId>;

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class SpecWriter {
 public:
  SpecWriter(const Joint& joint, bool recomputes, const FunctionTable& table, const StagePorts& ports)
      : joint_(joint), recomputes_(recomputes), table_(table), ports_(ports) {}

  StageSpecs write() && {
    made_.totals = table_[FunctionKind::kStepEnd].arguments;
    for (size_t i = 0; i < joint_.gradients.size(); ++i)
      sums_.emplace_back(joint_.gradients[i].gradient, ports_.sums[i]);
    find_marks();
    for (uint32_t i = 0; i < made_.totals.size(); ++i) sums_.emplace_back(made_.totals[i], ports_.sum_count + i);
    made_.loaded = read_elsewhere(FunctionKind::kLoad);
    made_.stepped = read_elsewhere(FunctionKind::kStep);
    add(ProgramKind::kLoad, FunctionKind::kLoad, {}, made_.loaded);
    add(ProgramKind::kStep, FunctionKind::kStep, {}, made_.stepped);
    forward();
    backward();
    add(ProgramKind::kEnd, FunctionKind::kStepEnd, made_.totals, {});
    return std::move(made_);
  }

 private:
  /// Buckets that E completes have no mark, nor have those behind them.
  void find_marks() {
    const Ids& end = table_[FunctionKind::kStepEnd].results;
    const std::set<ValueId> late(end.begin(), end.end());
    for (const std::vector<uint32_t>& bucket : ports_.buckets) {
      std::vector<uint32_t>& sums = marks_.emplace_back();
      for (const uint32_t part : bucket) {
        if (late.contains(joint_.gradients[part].gradient)) return marks_.pop_back();
        sums.push_back(ports_.sums[part]);
      }
    }
  }

  bool is_random(ValueId value) const { return joint_.graph.kind(value) == ValueKind::kRandomInput; }

  void forward() {
    for (const ValueId value : table_[FunctionKind::kForward].arguments) {
      if (!is_random(value)) made_.inputs.push_back(value);
    }
    const Ids outputs = joined(ports_.outputs, ports_.moments);
    const auto add_forward = [&](ProgramKind kind, Ids results) {
      add(kind, FunctionKind::kForward, made_.inputs, std::move(results));
    };
    add_forward(ProgramKind::kEvaluate, ports_.outputs);
    add_forward(ProgramKind::kForward, joined(outputs, table_.saved));
    if (!recomputes_) return;
    add_forward(ProgramKind::kBegin, joined(outputs, table_.recompute));
    for (const ValueId value : table_[FunctionKind::kRebuild].arguments) {
      const bool kept = std::binary_search(table_.recompute.begin(), table_.recompute.end(), value);
      if (kept || !is_random(value)) made_.rebuild_from.push_back(value);
    }
    add(ProgramKind::kRebuild, FunctionKind::kRebuild, made_.rebuild_from, table_.rebuilt);
  }

  /// Backward programs take all saved values, then seeds. I also returns what W takes.
  void backward() {
    Ids seeds, gradients;
    for (const auto& output : joint_.outputs) seeds.push_back(output.gradient);
    for (const auto& input : joint_.inputs) gradients.push_back(input.gradient);
    const Ids& for_weight = table_[FunctionKind::kWeight].arguments;
    const Ids arguments = joined(table_.saved, seeds);
    add(ProgramKind::kInput, FunctionKind::kInput, arguments, joined(gradients, for_weight));
    add(ProgramKind::kWeight, FunctionKind::kWeight, for_weight, {});
    add(ProgramKind::kBackward, FunctionKind::kBackward, arguments, gradients);
  }

  /// Values that P makes and another function reads.
  Ids read_elsewhere(FunctionKind kind) const {
    Ids found;
    std::set<ValueId> given(ports_.outputs.begin(), ports_.outputs.end());
    for (const StageFunction& function : table_.functions) {
      const Ids leaving = function.leaving();
      given.insert(leaving.begin(), leaving.end());
    }
    for (const TaskId task : table_[kind].tasks) {
      for (const ValueId output : joint_.graph.outputs(task)) {
        const bool used = given.contains(output) || joint_.graph.any_use(output, [&](Graph::Use use) {
          return table_.place[use.task.index()] != kind;
        });
        if (used) found.push_back(output);
      }
    }
    return found;
  }

  void add(ProgramKind kind, FunctionKind of, Ids arguments, Ids results) {
    const StageFunction& function = table_[of];
    ProgramSpec spec{std::string(name(kind)), function.tasks, std::move(arguments), std::move(results)};
    const Ids& added = of == FunctionKind::kStepEnd ? function.results : function.added;
    const std::set<ValueId> terms(added.begin(), added.end());
    for (const auto& [value, sum] : sums_) {
      if (terms.contains(value)) spec.adds.emplace_back(value, sum);
    }
    if (kind == ProgramKind::kWeight || kind == ProgramKind::kBackward) spec.marks = marks_;
    made_[kind] = std::move(spec);
  }

  const Joint& joint_;
  const bool recomputes_;
  const FunctionTable& table_;
  const StagePorts& ports_;
  std::vector<std::pair<ValueId, uint32_t>> sums_;  ///< values and the sum that each is added to
  std::vector<std::vector<uint32_t>> marks_;        ///< by bucket: its sums
  StageSpecs made_;
};

}  // namespace

StagePorts own_ports(const Joint& joint) {
  StagePorts ports;
  ports.outputs = joint.graph.outputs();
  for (const Statistics& each : joint.graph.statistics()) {
    ports.moments.push_back(each.mean);
    ports.moments.push_back(each.variance);
  }
  for (; ports.sum_count < joint.gradients.size(); ++ports.sum_count) ports.sums.push_back(ports.sum_count);
  return ports;
}

std::vector<bool> resident_values(const Graph& joint, const FunctionTable& table) {
  std::vector<bool> found(joint.value_count());
  for (const ValueId value : joint.values()) {
    const TaskId task = joint.producer(value);
    const ValueKind kind = joint.kind(value);
    found[value.index()] = task.valid() ? table.place[task.index()] <= FunctionKind::kStep
                                        : kind != ValueKind::kInput && kind != ValueKind::kRandomInput;
  }
  return found;
}

StageSpecs stage_specs(const Joint& joint, bool recomputes, const FunctionTable& table, const StagePorts& ports) {
  return SpecWriter(joint, recomputes, table, ports).write();
}

}  // namespace rannc::ir
