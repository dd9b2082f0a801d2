/// Computes the temporary memory of blocks by following their programs in the model's joint graph.
#pragma once

#include <vector>

#include "ir/program/program_memory.h"
#include "partition/model/task_memory.h"

namespace rannc::partition {

/// Bytes of one micro-batch's share on one replica.
struct BlockMemory {
  double least_temporary = 0;  ///< `temporary` for the least samples
  /// Peak of a pass above what is held before it or after it, with the gradients that a backward pass receives.
  double temporary = 0;
  double pending = 0;  ///< held from I to W: saved values and gradients
};

/// Follows the blocks of a model, each like a stage (`ir/program/program_memory.h`). Not thread-safe.
///
/// Limit: a value that the block receives counts as held during its forward pass.
class BlockFollower {
 public:
  /// Both sample counts are at least 1. `memory` must outlive the follower.
  BlockFollower(const TaskMemory& memory, uint64_t least, uint64_t most);

  /// What a block with `tasks` (ascending) runs, in no order with other blocks. `sent`: as below.
  struct Programs {
    std::vector<ValueId> arguments, results;  ///< of `forward`
    std::vector<TaskId> backward_tasks;       ///< in their order
    ir::Program forward, backward;
  };
  Programs lower(const std::vector<TaskId>& tasks, const std::vector<ValueId>& sent);
  /// Bytes of a value of the joint graph for the most samples.
  double bytes(ValueId value) { return static_cast<double>(most_.bytes(value)); }

  /// Returns the memory of a block with `tasks` (ascending). `sent`: results that other blocks read and whose gradients
  /// they return. For inference, the samples that a block reads are temporary.
  BlockMemory follow(const std::vector<TaskId>& tasks, const std::vector<ValueId>& sent, bool training);

 private:
  using Ids = std::vector<ValueId>;
  Ids arguments(const std::vector<TaskId>& tasks) const;
  ir::ProgramSpec forward(const std::vector<TaskId>& tasks, const Ids& sent) const;
  ir::ProgramSpec backward(const std::vector<TaskId>& tasks) const;
  Ids pending(const std::vector<TaskId>& tasks) const;
  std::vector<TaskId> backward_tasks(const std::vector<TaskId>& tasks) const;
  bool in_block(TaskId task) const { return block_of_[m_.joint_.origins[task.index()].task.index()] == block_; }

  const TaskMemory& m_;
  const ir::Bindings least_sizes_, sizes_;
  ir::ProgramMemory least_, most_;
  uint32_t block_ = 0;              // number of calls of `lower`
  std::vector<uint32_t> block_of_;  // by task of the model: the last block that had it
};

}  // namespace rannc::partition
