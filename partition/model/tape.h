/// Determines what LibTorch's tape keeps from the forward to the backward pass of a graph's tasks.
#pragma once

#include <span>
#include <vector>

#include "ir/base/instruction_set.h"
#include "ir/graph/graph.h"
#include "ir/op/kernel_scratch.h"
#include "partition/model/value_bytes.h"

namespace rannc::partition {

/// Memory behaviour of each task, by the rules of ATen's derivatives for the functions that its operator is lowered to.
/// Limits: operands from elsewhere are assumed to be contiguous; an operator without a rule keeps its float operands
/// and its results.
class Tape {
 public:
  /// `assume` binds symbols other than the batch, and `instructions` are those of the devices. Fails if the size of a
  /// value is unknown; the diagnostic names the value.
  static Result<Tape> of(const ir::Graph& graph, const ir::Bindings& assume,
                         std::vector<ir::InstructionSet> instructions = {ir::kDefaultInstructions});

  /// Operands and results whose memory the task keeps; empty if no gradient flows through the task.
  std::span<const ValueId> kept(TaskId task) const {
    return {kept_.data() + first_kept_[task.index()], kept_.data() + first_kept_[task.index() + 1]};
  }
  /// Bytes that the task keeps besides the memory of values: statistics, copies.
  const ByteLine& own(TaskId task) const { return own_[task.index()]; }
  /// Bytes that its passes need temporarily besides operands, results and their gradients.
  const ByteLine& workspace(TaskId task) const { return workspace_[task.index()]; }
  static constexpr uint32_t kNoScratch = UINT32_MAX;
  /// Kind of scratch-allocating kernel that the task runs; `kNoScratch`: none. Such a kernel's need is not linear in
  /// the samples and replaces `workspace`.
  uint32_t scratch_kind(TaskId task) const { return scratch_kind_.empty() ? kNoScratch : scratch_kind_[task.index()]; }
  size_t scratch_kinds() const { return scratches_.size(); }
  ir::KernelScratch scratch(uint32_t kind, uint64_t samples) const;
  /// Whether the results share the memory of operand 0.
  bool is_view(TaskId task) const { return traits_[task.index()] & kView; }
  /// Whether the gradient of its result serves as the gradient of its operands, without memory of its own.
  bool passes_gradient(TaskId task) const { return traits_[task.index()] & kPassesGradient; }
  /// Whether the gradients of its operands are parts of its result's gradient, which stays in memory until the last
  /// part is freed.
  bool returns_parts(TaskId task) const { return traits_[task.index()] & kReturnsParts; }
  /// Whether the gradient of the parameter that it reads consists of the rows that it looked up.
  bool returns_rows(TaskId task) const { return traits_[task.index()] & kReturnsRows; }
  /// The value whose memory this one shares, or the value itself.
  ValueId base(ValueId value) const { return base_[value.index()]; }
  /// Whether some task keeps the memory of this base.
  bool is_kept(ValueId base) const { return kept_somewhere_[base.index()]; }
  /// Bytes that a task leaves for its own or other tasks' backward passes: results whose memory is kept, its own bytes,
  /// and random inputs that it is the first to read.
  double stash_bytes(TaskId task, double samples) const;
  const ByteLine& bytes(ValueId value) const { return lines_[graph_->type_number(value)]; }
  bool needs_gradient(ValueId value) const { return needs_gradient_[value.index()]; }

 private:
  friend class TapeBuilder;
  static constexpr uint8_t kView = 1, kPassesGradient = 2, kReturnsRows = 4, kReturnsParts = 8;

  /// A task of the kind, and the operands that need gradients.
  struct ScratchKind {
    TaskId task;
    uint64_t wanted = 0;
  };

  const ir::Graph* graph_ = nullptr;
  ir::Bindings assume_;
  std::vector<ir::InstructionSet> instructions_;
  std::vector<uint32_t> scratch_kind_;  // by task; empty where no task has one
  std::vector<ScratchKind> scratches_;
  std::vector<ByteLine> lines_;  // by type number
  std::vector<bool> needs_gradient_, kept_somewhere_;
  std::vector<ValueId> base_;
  std::vector<uint8_t> traits_;
  std::vector<ByteLine> own_, workspace_;
  std::vector<uint32_t> first_kept_;
  std::vector<ValueId> kept_;
};

}  // namespace rannc::partition
