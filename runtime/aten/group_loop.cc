// Connects the tasks of a group.
#include "runtime/aten/group_loop.h"

#include <map>

#include "ir/graph/execution_frequency.h"

namespace rannc::runtime {

namespace {

class Connector {
 public:
  Connector(const ir::Graph& graph, const ir::LoopTasks& loops, const ir::LoopAliases& alias, SizeTable& sizes)
      : graph_(graph), loops_(loops), alias_(alias), sizes_(sizes) {}

  GroupLoop connect(const ir::LoopGroup& group, const std::function<bool(ValueId)>& leaves) {
    const ir::LoopTask& first = loops_.at(group.tasks[0]);
    made_.loop.dtype = first.dtype;
    made_.loop.rows = sizes_.number(first.rows);
    made_.loop.columns = sizes_.number(first.columns);
    for (const TaskId task : group.tasks) add(task);
    for (uint32_t m = 0; m < made_.loop.members.size(); ++m) {
      const auto outputs = graph_.outputs(made_.loop.members[m].task);
      for (uint32_t r = 0; r < outputs.size(); ++r) {
        if (leaves(outputs[r])) add_output(m, r, outputs[r]);
      }
    }
    return std::move(made_);
  }

 private:
  void add(TaskId task) {
    FlatLoop::Member member{task, loops_.at(task), {}, {}};
    const auto inputs = graph_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      member.operands.emplace_back();
      if (!ir::reads_operand(graph_, task, i)) continue;
      member.operands.back() = operand({alias_(inputs[i]), inputs[i], task}, member.loop.operands[i]);
    }
    const auto outputs = graph_.outputs(task);
    for (uint32_t r = 0; r < outputs.size(); ++r) {
      member.types.push_back(graph_.type(outputs[r]).dtype);
      known_[outputs[r]] = {true, static_cast<uint32_t>(made_.loop.members.size()), r};
    }
    made_.loop.by_rows = made_.loop.by_rows || member.loop.by_rows;
    made_.loop.members.push_back(std::move(member));
  }

  FlatLoop::Operand operand(const GroupLoop::Input& input, const ir::LoopValue& lies) {
    const auto index = static_cast<uint32_t>(made_.inputs.size());
    const auto [found, fresh] = known_.try_emplace(input.value, FlatLoop::Operand{false, index, 0});
    if (fresh) {
      made_.inputs.push_back(input);
      made_.loop.inputs.push_back(
          {lies, graph_.type(input.value).dtype, sizes_.number(lies.divisor), sizes_.number(lies.period)});
    }
    return found->second;
  }

  void add_output(uint32_t member, uint32_t result, ValueId value) {
    FlatLoop::Output output{member, result, graph_.type(value).dtype, {}};
    for (const ir::Dim& dim : *graph_.type(value).shape) output.sizes.push_back(sizes_.number(dim));
    made_.loop.outputs.push_back(std::move(output));
    made_.outputs.push_back(value);
  }

  const ir::Graph& graph_;
  const ir::LoopTasks& loops_;
  const ir::LoopAliases& alias_;
  SizeTable& sizes_;
  GroupLoop made_;
  std::map<ValueId, FlatLoop::Operand> known_;
};

}  // namespace

GroupLoop group_loop(const ir::Graph& graph, const ir::LoopGroup& group, const ir::LoopTasks& loops,
                     const ir::LoopAliases& alias, SizeTable& sizes, const std::function<bool(ValueId)>& leaves) {
  return Connector(graph, loops, alias, sizes).connect(group, leaves);
}

}  // namespace rannc::runtime
