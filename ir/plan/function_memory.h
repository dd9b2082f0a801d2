/// Memory of a stage's functions.
#pragma once

#include <vector>

#include "ir/base/instruction_set.h"
#include "ir/program/program_memory.h"
#include "ir/program/stage_programs.h"

namespace rannc::ir {

/// Bytes of one replica's share of a micro-batch. A value that shares memory with another counts once. Parameters,
/// buffers, constants and results of P are not part of it.
///
/// Peaks are bytes above the memory in use before the function, which includes its arguments. Those of `first_…` are of
/// the first such function of a step, which allocates the sums of the gradients; those of `last_…` of the last one, in
/// which sums over replicas begin. They are 0 if there are none, or if the first one is the last one and counts them.
struct FunctionMemory {
  int64_t saved = 0;                                      ///< held from F or R to B, samples included
  int64_t kept = 0;                                       ///< held from F to R, samples included
  int64_t pending = 0;                                    ///< held from I to W, samples included
  int64_t evaluate = 0, forward = 0, begin = 0;           ///< F that keeps nothing, all saved values, what R reads
  int64_t rebuild = 0;                                    ///< R
  int64_t input = 0;                                      ///< I
  int64_t weight = 0, first_weight = 0, last_weight = 0;  ///< W
  int64_t backward = 0, first_backward = 0, last_backward = 0;  ///< B
};

/// Bytes of a stage that do not depend on a micro-batch.
struct StepMemory {
  int64_t fixed = 0;   ///< results of P
  int64_t totals = 0;  ///< sums that E reads, from the first backward pass to E
  int64_t late = 0;    ///< sums of gradients that E makes, from E on
  int64_t end = 0;     ///< peak of E
};

/// Memory of a stage's programs (`ir/program/program_memory.h`).
class FunctionFollower {
 public:
  /// Of a stage of a plan with functions, which must outlive the follower.
  FunctionFollower(const Plan& plan, StageId stage);

  const FunctionTable& table() const { return table_; }
  FunctionMemory follow(const Bindings& sizes);
  StepMemory step(const Bindings& sizes);
  /// Whether a value shares memory with a saved value, or with one that R reads.
  bool is_saved(ValueId value) const { return saved_[views().base(value).index()]; }
  bool is_kept(ValueId value) const { return kept_[views().base(value).index()]; }

 private:
  const Views& views() const { return lowering_.views(); }
  const Program& program(ProgramKind kind);
  /// Bytes of the memory of values, each once.
  int64_t held(ProgramMemory& memory, const std::vector<ValueId>& values) const;

  const StageFunctions& stage_;
  const FunctionTable table_;
  ProgramLowering lowering_;
  const std::vector<int64_t> sums_;  ///< by bucket: bytes of its sum
  const bool one_pass_;              ///< a step has one micro-batch
  StageSpecs specs_;
  std::array<std::optional<Program>, kProgramKinds> programs_;  ///< lowered on first use
  const std::vector<ValueId> samples_;                          ///< ascending
  const std::vector<InstructionSet> instructions_;
  std::vector<bool> saved_, kept_;  ///< by base
};

/// Inputs of a stage's joint graph that are inputs of the model, whose samples a device holds anyway.
std::vector<ValueId> sample_inputs(const Plan& plan, const Graph& joint);

}  // namespace rannc::ir
