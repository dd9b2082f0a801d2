/// Determines what each task of a model adds to the memory of its stage, from the model's joint graph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ir/graph/execution_frequency.h"
#include "ir/plan/functions.h"
#include "ir/program/lower_program.h"
#include "partition/cluster.h"
#include "partition/model/value_bytes.h"

namespace rannc::partition {

/// Additive numbers: those of a block are the sums over its tasks. A value that shares memory with another counts with
/// it, once. Parameters, buffers and results that are computed once per step are *fixed*: counted elsewhere.
class TaskMemory {
 public:
  /// `joint` is the joint graph of `graph`; of inference, its forward pass alone. Both must outlive the result.
  /// `assume` binds symbols other than the batch. `loops`: programs compute loop tasks by loops. Fails if the size of a
  /// value is unknown; the diagnostic names it.
  static Result<TaskMemory> of(const ir::Graph& graph, const ir::Joint& joint, const ir::Bindings& assume,
                               const Cluster& cluster, bool loops = false);

  /// Size of a value of the model.
  const ByteLine& bytes(ValueId value) const { return lines_[graph_.type_number(value)]; }
  bool needs_gradient(ValueId value) const { return needs_gradient_[value.index()]; }
  /// Bytes that a task leaves for backward passes: results that some backward task reads, auxiliary results and tapes
  /// among them, and random inputs that it is the first to read.
  const ByteLine& saved(TaskId task) const { return saved_bytes_[task.index()]; }
  /// Whether a backward task reads the memory of a task's result.
  bool is_saved(ValueId result) const { return saved_[views().base(in_joint(result)).index()]; }
  /// Whether a task's result is computed once per step or less, and its memory is read by tasks that run more often.
  bool is_stored(ValueId result) const { return stored_[in_joint(result).index()]; }
  /// Backward tasks of a task of the model, in the joint graph, ascending.
  std::span<const TaskId> backward(TaskId task) const {
    return {backward_.data() + first_backward_[task.index()], backward_.data() + first_backward_[task.index() + 1]};
  }
  /// Whether its programs compute loop tasks by loops.
  bool has_loops() const { return has_loops_; }

 private:
  friend class BlockFollower;
  TaskMemory(const ir::Graph& graph, const ir::Joint& joint) : graph_(graph), joint_(joint) {}
  void find_read();
  void add_saved();
  void order_backward();

  const ir::Views& views() const { return lowering_->views(); }
  ValueId in_joint(ValueId result) const;
  bool is_fixed(ValueId value) const { return lowering_->is_resident(views().base(value)); }
  bool is_backward(TaskId task) const {
    const ir::FunctionKind place = place_[task.index()];
    return place == ir::FunctionKind::kInput || place == ir::FunctionKind::kWeight;
  }
  template <class F>
  void each_operand(TaskId task, F&& f) const;

  const ir::Graph& graph_;
  const ir::Joint& joint_;
  // Of the joint graph:
  std::unique_ptr<ir::ProgramLowering> lowering_;
  std::vector<ir::FunctionKind> place_;   // by task
  std::vector<bool> stored_, saved_;      // by base
  std::vector<bool> summed_;              // by value: whether it is added to the sum of a gradient
  std::vector<ValueId> samples_;          // inputs of the model
  std::vector<uint32_t> first_backward_;  // into `backward_`, by task of the model
  std::vector<TaskId> backward_;
  std::vector<ByteLine> joint_lines_;  // by type number
  // Of the model:
  std::vector<ByteLine> lines_;  // by type number
  std::vector<bool> needs_gradient_;
  std::vector<ByteLine> saved_bytes_;  // by task
  bool has_loops_ = false;
  ir::Bindings assume_;
  std::vector<ir::InstructionSet> instructions_;
};

/// Calls `f` with each operand whose numbers a task of the joint graph reads.
template <class F>
void TaskMemory::each_operand(TaskId task, F&& f) const {
  const auto operands = joint_.graph.inputs(task);
  for (size_t k = 0; k < operands.size(); ++k) {
    if (ir::reads_operand(joint_.graph, task, k)) f(operands[k]);
  }
}

}  // namespace rannc::partition
