/// Lowers the tasks of a function to a program.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/views.h"
#include "ir/op/loop_groups.h"
#include "ir/program/program.h"

namespace rannc::ir {

/// A function to lower. Values that are neither arguments nor made by a task nor random are fixed.
struct ProgramSpec {
  std::string name;
  std::span<const TaskId> tasks;                        ///< ascending; those that no result needs are left out
  std::vector<ValueId> arguments;                       ///< distinct
  std::vector<ValueId> results;                         ///< may repeat, and may be arguments, random or fixed
  std::vector<std::pair<ValueId, uint32_t>> adds = {};  ///< values and the sum that each is added to
  /// By bucket: sums. Its mark follows the last add to any of them, and the mark of the bucket before.
  std::vector<std::vector<uint32_t>> marks = {};
};

/// Of all programs of a graph.
struct LoweringOptions {
  DeviceType device = DeviceType::kCpu;
  bool flash_attention = false;                 ///< as in `DeviceKernels`; of calls, memory does not depend on it
  std::span<const Joint::Origin> origins = {};  ///< of a joint graph, which outlives the lowering; by task
  bool loops = false;                           ///< compute loop tasks (`ir/op/loop.h`) by loops
  bool calls = true;                   ///< false: `Instruction::lowering` is null; cannot fail. For memory alone
  std::vector<TaskId> exchanges = {};  ///< ascending: tasks that replicas compute together
  std::vector<bool> resident = {};     ///< by value: is in memory during all programs; empty: leaves only
};

/// Lowers functions of one graph, which must outlive it and the programs.
///
/// A task becomes the ATen calls of its operator's lowering. Operators without one (foreign operators, `vjp` tasks,
/// branches, loops over bodies) and `taped` tasks whose tape is read remain whole tasks, because a library may have
/// registered its function above autograd alone. Tasks that share a kernel become one instruction
/// (`ir/op/merged_calls.h`), as do loop tasks of equal rows and columns. A product of matrices that only a sum reads is
/// added to it without a value of its own. A random input is made before its first reader. Marks follow what they
/// await.
class ProgramLowering {
 public:
  ProgramLowering(const Graph& graph, LoweringOptions options);
  /// Errors have the location of the task.
  Result<Program> lower(const ProgramSpec& spec);
  const Graph& graph() const { return graph_; }
  const Views& views() const { return views_; }
  /// Whether memory is that of a fixed value. `base`: a value that has its own memory.
  bool is_resident(ValueId base) const;

 private:
  friend class ProgramBuilder;
  using Lowering = std::shared_ptr<const aten::Lowering>;

  /// The calls of a task. Null: control flow, which runs as a whole task.
  Result<Lowering> calls_of(TaskId task);
  const LoopTasks& loops();

  const Graph& graph_;
  const LoweringOptions options_;
  const Views views_;
  std::vector<std::optional<Lowering>> calls_;  ///< by task; nothing: not lowered so far
  std::optional<LoopTasks> loops_;
};

}  // namespace rannc::ir
