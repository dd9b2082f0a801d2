/// The programs of a stage.
#pragma once

#include <optional>
#include <vector>

#include "ir/base/program_kind.h"
#include "ir/plan/functions.h"
#include "ir/program/lower_program.h"

namespace rannc::ir {

/// How the programs of a stage are connected.
struct StagePorts {
  std::vector<ValueId> outputs;  ///< in the order in which F returns them
  std::vector<ValueId> moments;  ///< means and variances, which F returns behind them
  std::vector<uint32_t> sums;    ///< by `Joint::gradients`: the sum that the part is added to
  uint32_t sum_count = 0;        ///< sums of totals follow
  /// By bucket of the stage: parts of gradients, as indices into `Joint::gradients`.
  std::vector<std::vector<uint32_t>> buckets = {};
};
/// The ports of a stage whose sums are its parts of gradients.
StagePorts own_ports(const Joint& joint);

/// What the programs of a stage are lowered from.
struct StageSpecs {
  ByProgram<std::optional<ProgramSpec>> programs;  ///< nothing: the stage has no such program
  std::vector<ValueId> inputs;                     ///< arguments of F
  std::vector<ValueId> rebuild_from;               ///< arguments of R
  std::vector<ValueId> loaded, stepped;            ///< results of P
  std::vector<ValueId> totals;                     ///< operands of totals, arguments of E

  std::optional<ProgramSpec>& operator[](ProgramKind kind) { return programs[kind]; }
};

/// The values in memory during all programs: parameters, buffers, constants, results of P. By value.
std::vector<bool> resident_values(const Graph& joint, const FunctionTable& table);

/// The programs of a stage. `recomputes`: it has an R. `table` must outlive them.
StageSpecs stage_specs(const Joint& joint, bool recomputes, const FunctionTable& table, const StagePorts& ports);

}  // namespace rannc::ir
