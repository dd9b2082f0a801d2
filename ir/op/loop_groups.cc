// Groups loop tasks greedily, in the order of the function.
//
// Each unit (a call or a group) has a position: that of the task at whose place it runs. A task joins a group
//   - at the group's position, if all its other operands are made before, or
//   - at its own position, if no task before that reads what the group makes. The group moves there.
#include "ir/op/loop_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/graph/execution_frequency.h"

namespace rannc::ir {

namespace {

constexpr size_t kNowhere = SIZE_MAX;
/// Values that one loop reads and makes. More streams compete for the cache and for registers.
constexpr size_t kMostValues = 16;

struct Group {
  LoopGroup made;
  Dim rows, columns;
  std::optional<DType> dtype;  ///< nothing: no task has floats
  size_t position = 0;
  size_t first_reader = kNowhere;  ///< position of the first unit outside that reads one of its values
  std::set<ValueId> values;        ///< read or made
};

class Grouper {
 public:
  Grouper(const Graph& graph, std::span<const MergedCall> calls, const LoopTasks& loops)
      : graph_(graph), calls_(calls), loops_(loops), alias_(graph, calls) {}

  std::vector<LoopGroup> groups() {
    index_calls();
    for (size_t i = 0; i < calls_.size(); ++i) {
      const TaskId task = calls_[i].tasks[0];
      if (loops_.contains(task)) add(task, i);
    }
    std::vector<LoopGroup> found;
    for (Group& group : groups_) found.push_back(std::move(group.made));
    return found;
  }

 private:
  void index_calls() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (const TaskId task : calls_[i].tasks) {
        for (const ValueId output : graph_.outputs(task)) position_[output] = i;
        if (loops_.contains(task)) continue;
        for (const ValueId input : graph_.inputs(task)) {
          if (input.valid()) reader_.try_emplace(input, i).first->second = std::min(reader_[input], i);
        }
      }
    }
  }

  std::vector<ValueId> operands(TaskId task) const {
    std::vector<ValueId> found;
    const auto inputs = graph_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (reads_operand(graph_, task, i)) found.push_back(alias_(inputs[i]));
    }
    return found;
  }

  void add(TaskId task, size_t position) {
    const LoopTask& shape = loops_.at(task);
    const std::vector<ValueId> read = operands(task);
    std::set<size_t> candidates;
    for (const ValueId value : read) {
      const auto last = last_.find(value);
      if (last != last_.end()) candidates.insert(last->second);
    }
    size_t chosen = kNowhere;
    for (const size_t each : candidates) {
      if (chosen == kNowhere && joins(groups_[each], each, shape, read, task, position)) chosen = each;
    }
    if (chosen == kNowhere) {
      chosen = groups_.size();
      groups_.push_back({{{}, task}, shape.rows, shape.columns, shape.dtype, position, kNowhere, {}});
    }
    enter(chosen, task, shape, read);
  }

  /// Whether the task may join. Moves the group if that is necessary.
  bool joins(Group& group, size_t index, const LoopTask& shape, const std::vector<ValueId>& read, TaskId task,
             size_t position) const {
    if (group.rows != shape.rows || group.columns != shape.columns) return false;
    if (group.dtype && shape.dtype && *group.dtype != *shape.dtype) return false;
    if (group.values.size() + read.size() + graph_.outputs(task).size() > kMostValues) return false;
    size_t needed = 0;  // position after which all other operands exist
    for (const ValueId value : read) {
      const auto maker = group_of_.find(value);
      if (maker == group_of_.end() || maker->second != index) {
        needed = std::max(needed, made_after(value));
      } else if (late_.contains(value)) {
        return false;
      }
    }
    if (needed <= group.position) return true;
    if (position >= group.first_reader) return false;
    group.position = position;
    group.made.place = task;
    return true;
  }

  /// The first position at which the value exists.
  size_t made_after(ValueId value) const {
    const auto maker = group_of_.find(value);
    if (maker != group_of_.end()) return groups_[maker->second].position + 1;
    const auto found = position_.find(value);
    return found == position_.end() ? 0 : found->second + 1;
  }

  void enter(size_t index, TaskId task, const LoopTask& shape, const std::vector<ValueId>& read) {
    Group& group = groups_[index];
    group.made.tasks.push_back(task);
    if (!group.dtype) group.dtype = shape.dtype;
    for (const ValueId value : read) {
      group.values.insert(value);
      last_[value] = index;
      const auto maker = group_of_.find(value);
      if (maker == group_of_.end() || maker->second == index) continue;
      Group& other = groups_[maker->second];
      other.first_reader = std::min(other.first_reader, group.position);
    }
    const auto outputs = graph_.outputs(task);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId output = outputs[i];
      if (is_known_late(shape.results[i])) late_.insert(output);
      group.values.insert(output);
      last_[output] = index;
      group_of_[output] = index;
      const auto reader = reader_.find(output);
      if (reader != reader_.end()) group.first_reader = std::min(group.first_reader, reader->second);
    }
  }

  const Graph& graph_;
  const std::span<const MergedCall> calls_;
  const LoopTasks& loops_;
  const LoopAliases alias_;
  std::vector<Group> groups_;
  std::map<ValueId, size_t> position_;  ///< of the call that makes a value
  std::map<ValueId, size_t> reader_;    ///< position of the first reader that is no loop
  std::map<ValueId, size_t> group_of_;  ///< that makes a value
  std::set<ValueId> late_;              ///< sums over rows
  std::map<ValueId, size_t> last_;      ///< group that makes a value or read it last
};

}  // namespace

LoopAliases::LoopAliases(const Graph& graph, std::span<const MergedCall> calls) : of_(graph.value_count()) {
  for (const MergedCall& call : calls) {
    if (call.tasks.size() != 1 || !keeps_columns(graph, call.tasks[0])) continue;
    of_[graph.outputs(call.tasks[0])[0].index()] = (*this)(graph.inputs(call.tasks[0])[0]);
  }
}

ValueId LoopAliases::operator()(ValueId value) const {
  if (!value.valid()) return value;
  const ValueId of = of_[value.index()];
  return of.valid() ? of : value;
}

std::vector<LoopGroup> loop_groups(const Graph& graph, std::span<const MergedCall> calls, const LoopTasks& loops) {
  return Grouper(graph, calls, loops).groups();
}

}  // namespace rannc::ir
