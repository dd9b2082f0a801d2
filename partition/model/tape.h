/// What LibTorch's tape keeps of a graph's tasks from their forward to their backward pass.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/op/kernel_scratch.h"
#include "partition/model/value_bytes.h"

namespace rannc::partition {

/// How a task treats memory, by the rules of ATen's derivatives for what its operator is lowered to. Limits: operands
/// are taken for contiguous where they come from elsewhere; an operator without a rule keeps its float operands and its
/// results.
class Tape {
 public:
  /// `assume` binds symbols other than the batch; a diagnostic names a value whose size is not known.
  static Result<Tape> of(const ir::Graph& graph, const ir::Bindings& assume);

  /// Operands and results whose memory the task keeps; empty where no gradient flows through it.
  std::span<const ValueId> kept(TaskId task) const {
    return {kept_.data() + first_kept_[task.index()], kept_.data() + first_kept_[task.index() + 1]};
  }
  /// What it keeps beside the memory of values: statistics, copies.
  const ByteLine& own(TaskId task) const { return own_[task.index()]; }
  /// What its passes need for a while, beside operands, results and their gradients.
  const ByteLine& workspace(TaskId task) const { return workspace_[task.index()]; }
  static constexpr uint32_t kNoScratch = UINT32_MAX;
  /// Which of the kinds of kernels that allocate for themselves the task has; `kNoScratch`: none. What such a kernel
  /// needs is no line over the samples, and stands in for `workspace`.
  uint32_t scratch_kind(TaskId task) const { return scratch_kind_.empty() ? kNoScratch : scratch_kind_[task.index()]; }
  size_t scratch_kinds() const { return scratches_.size(); }
  ir::KernelScratch scratch(uint32_t kind, uint64_t samples) const;
  /// Whether the results share the memory of operand 0.
  bool is_view(TaskId task) const { return traits_[task.index()] & kView; }
  /// Whether the gradient of its result serves as that of its operands, without memory of its own.
  bool passes_gradient(TaskId task) const { return traits_[task.index()] & kPassesGradient; }
  /// Whether the gradients of its operands are parts of that of its result, all of which stays until the last has gone.
  bool gives_parts(TaskId task) const { return traits_[task.index()] & kGivesParts; }
  /// Whether the gradient of the parameter that it reads are the rows that it looked up.
  bool gives_rows(TaskId task) const { return traits_[task.index()] & kGivesRows; }
  /// The value whose memory this one shares; itself where it has its own.
  ValueId base(ValueId value) const { return base_[value.index()]; }
  /// Whether some task keeps the memory of this base.
  bool is_kept(ValueId base) const { return kept_somewhere_[base.index()]; }
  /// What a task leaves for backward passes, its own or others': results with memory that is kept, its own, and draws
  /// that it is the first to read.
  double stash_bytes(TaskId task, double samples) const;
  const ByteLine& bytes(ValueId value) const { return lines_[graph_->type_number(value)]; }
  bool needs_gradient(ValueId value) const { return needs_gradient_[value.index()]; }

 private:
  friend class TapeBuilder;
  static constexpr uint8_t kView = 1, kPassesGradient = 2, kGivesRows = 4, kGivesParts = 8;

  /// A task of the kind, and which operands want gradients.
  struct ScratchKind {
    TaskId task;
    uint64_t wanted = 0;
  };

  const ir::Graph* graph_ = nullptr;
  ir::Bindings assume_;
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
