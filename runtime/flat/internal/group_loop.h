/// The loop of a group of tasks.
#pragma once

#include <functional>
#include <vector>

#include "ir/op/loop_groups.h"
#include "runtime/flat/flat_code.h"

namespace rannc::runtime {

/// A loop, and the values that it reads and makes.
struct GroupLoop {
  struct Input {
    ValueId value;    ///< behind reshapes that keep columns
    ValueId operand;  ///< the operand of the first reader
    TaskId task;      ///< the first reader
  };
  FlatLoop loop;
  std::vector<Input> inputs;     ///< parallel to the loop's
  std::vector<ValueId> outputs;  ///< parallel to the loop's
};

/// What a loop is built for.
struct GroupOf {
  const ir::LoopTasks& loops;
  const ir::LoopAliases& alias;
  SizeTable& sizes;
  std::function<bool(ValueId)> leaves;     ///< whether something outside the group reads a value
  std::function<bool(ValueId)> is_random;  ///< whether a value is a random input that nothing has read so far
};
GroupLoop group_loop(const ir::Graph& graph, const ir::LoopGroup& group, const GroupOf& of);

}  // namespace rannc::runtime
