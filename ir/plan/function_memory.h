/// Memory of a stage's functions.
#pragma once

#include <vector>

#include "ir/base/instruction_set.h"
#include "ir/program/program_memory.h"
#include "ir/program/stage_programs.h"

namespace rannc::ir {

/// Bytes of a stage that do not depend on a micro-batch.
struct StepMemory {
  int64_t fixed = 0;   ///< results of P
  int64_t totals = 0;  ///< sums that E reads, from the first backward pass to E
  int64_t late = 0;    ///< sums of gradients that E makes, from E on
  int64_t end = 0;     ///< peak of E
};

/// Memory of a stage's programs (`ir/program/program_memory.h`). A value that shares memory with another counts once.
/// Parameters, buffers, constants and results of P are not part of it.
class FunctionFollower {
 public:
  /// Of a stage of a plan with functions, which must outlive the follower.
  FunctionFollower(const Plan& plan, StageId stage);

  const FunctionTable& table() const { return table_; }
  /// Sets the bytes of one replica's share of a micro-batch. What is held includes samples.
  void follow(const Bindings& sizes, StageTime& time);
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
  const DeviceType device_;
  const bool trains_, one_pass_;  ///< a step has a backward pass; one micro-batch
  StageSpecs specs_;
  ByProgram<std::optional<Program>> programs_;  ///< lowered on first use
  const std::vector<ValueId> samples_;          ///< ascending
  const std::vector<InstructionSet> instructions_;
  std::vector<bool> saved_, kept_;  ///< by base
};

/// Inputs of a stage's joint graph that are inputs of the model, whose samples a device holds anyway.
std::vector<ValueId> sample_inputs(const Plan& plan, const Graph& joint);

}  // namespace rannc::ir
