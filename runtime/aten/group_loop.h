/// The loop of a group of tasks.
#pragma once

#include <functional>
#include <vector>

#include "ir/op/loop_groups.h"
#include "runtime/aten/flat_code.h"

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

/// `leaves`: whether something outside the group reads a value.
GroupLoop group_loop(const ir::Graph& graph, const ir::LoopGroup& group, const ir::LoopTasks& loops,
                     const ir::LoopAliases& alias, SizeTable& sizes, const std::function<bool(ValueId)>& leaves);

}  // namespace rannc::runtime
