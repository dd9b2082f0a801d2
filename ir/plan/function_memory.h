/// Memory of a stage's functions.
#pragma once

#include <vector>

#include "ir/graph/views.h"
#include "ir/plan/functions.h"

namespace rannc::ir {

/// Bytes of one replica's share of a micro-batch. A value that shares memory with another counts once. Parameters,
/// buffers, constants and results of P are not part of it.
///
/// Peaks are bytes above the memory in use before the function, which includes its arguments. Those of `first_…` are of
/// the first such function of a step, which allocates the sums of the gradients.
struct FunctionMemory {
  int64_t saved = 0;                             ///< held from F or R to B, samples included
  int64_t kept = 0;                              ///< held from F to R, samples included
  int64_t pending = 0;                           ///< held from I to W, samples included
  int64_t evaluate = 0, forward = 0, begin = 0;  ///< F that keeps nothing, all saved values, what R reads
  int64_t rebuild = 0;                           ///< R
  int64_t input = 0;                             ///< I
  int64_t weight = 0, first_weight = 0;          ///< W
  int64_t backward = 0, first_backward = 0;      ///< B
};

/// Bytes of a stage that do not depend on a micro-batch.
struct StepMemory {
  int64_t fixed = 0;   ///< results of P
  int64_t totals = 0;  ///< sums that E reads, from the first backward pass to E
  int64_t late = 0;    ///< sums of gradients that E makes, from E on
  int64_t end = 0;     ///< peak of E
};

/// Follows the functions of a stage task by task, as the explicit engine runs them: a value lives until its last reader
/// has run or, if it leaves the function, to the end.
///
/// Limits: temporary memory of a task is what its operator entry declares (`OpInfo::copied`, `OpInfo::temporary`), the
/// scratch memory of convolutions, and what `vjp` tasks allocate. Values of unknown size count as empty.
class FunctionFollower {
 public:
  /// Of a stage of a plan with functions, which must outlive the follower.
  FunctionFollower(const Plan& plan, StageId stage);

  const FunctionTable& table() const { return table_; }
  FunctionMemory follow(const Bindings& sizes) const;
  StepMemory step(const Bindings& sizes) const;
  /// Whether a value shares memory with a saved value, or with one that R reads.
  bool is_saved(ValueId value) const { return saved_[views_.base(value).index()]; }
  bool is_kept(ValueId value) const { return kept_[views_.base(value).index()]; }

 private:
  friend class FunctionWalk;
  const StageFunctions& stage_;
  const FunctionTable table_;
  const Views views_;
  const std::vector<ValueId> samples_;
  const DeviceType device_;
  const std::vector<InstructionSet> instructions_;
  std::vector<bool> fixed_;         ///< by base: parameters, buffers, constants, results of P, samples
  std::vector<bool> saved_, kept_;  ///< by base
};

/// Inputs of a stage's joint graph that are inputs of the model, whose samples a device holds anyway.
std::vector<ValueId> sample_inputs(const Plan& plan, const Graph& joint);

}  // namespace rannc::ir
