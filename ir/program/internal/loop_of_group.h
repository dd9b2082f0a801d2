/// The loop of a group of tasks.
#pragma once

#include <functional>
#include <vector>

#include "ir/op/loop_groups.h"
#include "ir/program/program_loop.h"

namespace rannc::ir {

/// A loop, and the values that it reads and makes.
struct GroupLoop {
  struct Input {
    ValueId value;    ///< behind reshapes that keep columns
    ValueId operand;  ///< the operand of the first reader
    TaskId task;      ///< the first reader
  };
  ProgramLoop loop;
  std::vector<Input> inputs;     ///< parallel to the loop's
  std::vector<ValueId> outputs;  ///< parallel to the loop's
};

/// What a loop is built for.
struct GroupOf {
  const LoopTasks& loops;
  const LoopAliases& alias;
  std::function<bool(ValueId)> leaves;     ///< whether something outside the group reads a value
  std::function<bool(ValueId)> is_random;  ///< whether a value is a random input that nothing has read so far
};
GroupLoop loop_of_group(const Graph& graph, const LoopGroup& group, const GroupOf& of);

}  // namespace rannc::ir
