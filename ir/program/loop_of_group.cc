// Connects the tasks of a group.
#include "ir/program/internal/loop_of_group.h"

#include <map>

#include "ir/graph/execution_frequency.h"

namespace rannc::ir {

namespace {

class Connector {
 public:
  Connector(const Graph& graph, const GroupOf& of) : graph_(graph), of_(of) {}

  GroupLoop connect(const LoopGroup& group) {
    const LoopTask& first = of_.loops.at(group.tasks[0]);
    for (const TaskId task : group.tasks) {
      if (const auto dtype = of_.loops.at(task).dtype) made_.loop.dtype = *dtype;
    }
    made_.loop.rows = first.rows;
    made_.loop.columns = first.columns;
    for (const TaskId task : group.tasks) add(task);
    for (uint32_t m = 0; m < made_.loop.members.size(); ++m) {
      const auto outputs = graph_.outputs(made_.loop.members[m].task);
      for (uint32_t r = 0; r < outputs.size(); ++r) {
        if (of_.leaves(outputs[r])) add_output({m, r}, outputs[r]);
      }
    }
    for (uint32_t i = 0; i < made_.inputs.size(); ++i) {
      if (made_.loop.inputs[i].random && of_.leaves(made_.inputs[i].value))
        add_output({0, 0, i}, made_.inputs[i].value);
    }
    return std::move(made_);
  }

 private:
  void add(TaskId task) {
    ProgramLoop::Member member{task, of_.loops.at(task), {}, {}};
    const auto inputs = graph_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      member.operands.emplace_back();
      if (!reads_operand(graph_, task, i)) continue;
      const bool labels = member.loop.labels && member.loop.labels->operand == i;
      member.operands.back() = operand({of_.alias(inputs[i]), inputs[i], task}, member.loop.operands[i],
                                       labels ? std::optional(member.loop.labels->ignored) : std::nullopt);
    }
    const auto outputs = graph_.outputs(task);
    for (uint32_t r = 0; r < outputs.size(); ++r) {
      member.types.push_back(graph_.type(outputs[r]).dtype);
      results_[outputs[r]] = {true, static_cast<uint32_t>(made_.loop.members.size()), r};
    }
    made_.loop.by_rows = made_.loop.by_rows || member.loop.by_rows;
    made_.loop.members.push_back(std::move(member));
  }

  ProgramLoop::Operand operand(const GroupLoop::Input& input, const LoopValue& lies, std::optional<int64_t> ignored) {
    if (const auto made = results_.find(input.value); made != results_.end()) return made->second;
    for (uint32_t i = 0; i < made_.inputs.size(); ++i) {
      const ProgramLoop::Input& known = made_.loop.inputs[i];
      if (made_.inputs[i].value == input.value && known.value == lies && known.ignored == ignored) return {false, i, 0};
    }
    made_.inputs.push_back(input);
    made_.loop.inputs.push_back({lies, graph_.type(input.value).dtype, ignored, random(input.operand, lies)});
    return {false, static_cast<uint32_t>(made_.inputs.size() - 1), 0};
  }

  /// Numbers that depend on bits alone, of samples that lie one after the other.
  std::optional<ProgramLoop::Random> random(ValueId value, const LoopValue& lies) {
    const RandomInput* const random = graph_.random_input(value);
    if (random == nullptr || random->of == RandomInput::Of::kNormal) return std::nullopt;
    const ValueType& type = graph_.type(value);
    const BatchLayout& layout = type.batch;
    if (lies.kind != LoopValue::Kind::kFull || type.dtype != made_.loop.dtype || !of_.is_random(value))
      return std::nullopt;
    if (layout.has_batch() && (layout.axis != 0 || layout.outer != Dim(1))) return std::nullopt;
    Dim elements = layout.has_batch() ? layout.inner : (*type.shape)[0];
    for (size_t i = 1; i < type.shape->size(); ++i) elements = elements * (*type.shape)[i];
    return ProgramLoop::Random{value, *random, elements};
  }

  void add_output(ProgramLoop::Output output, ValueId value) {
    output.dtype = graph_.type(value).dtype;
    output.sizes = *graph_.type(value).shape;
    made_.loop.outputs.push_back(std::move(output));
    made_.outputs.push_back(value);
  }

  const Graph& graph_;
  const GroupOf& of_;
  GroupLoop made_;
  std::map<ValueId, ProgramLoop::Operand> results_;  ///< of members
};

}  // namespace

GroupLoop loop_of_group(const Graph& graph, const LoopGroup& group, const GroupOf& of) {
  return Connector(graph, of).connect(group);
}

}  // namespace rannc::ir
