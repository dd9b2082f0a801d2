/// The functions of a stage as flat programs.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/plan/functions.h"
#include "runtime/flat/flat_program.h"

namespace rannc::runtime {

/// Values of a stage's joint graph that its signature names, and the sums of its parameters' gradients.
struct StagePlaces {
  std::vector<ValueId> inputs, outputs;                 ///< by port
  std::vector<ValueId> parameters, buffers, constants;  ///< by weight; invalid: no task reads it
  std::vector<ValueId> random_inputs;                   ///< by random input
  std::vector<ValueId> moments;                         ///< mean and variance of each of the statistics
  std::vector<std::optional<size_t>>
      input_gradients;                 ///< by input port: index in `Joint::inputs`; nothing: no gradient
  std::vector<uint32_t> leaf_of_part;  ///< by `Joint::gradients`: leaf of the signature
  size_t leaf_count = 0;
};

/// All programs of one stage. Sums are numbered: leaves of the signature first, then operands of totals.
struct StagePrograms {
  FlatProgram load, step;                ///< P
  FlatProgram evaluate;                  ///< F that keeps nothing
  FlatProgram forward;                   ///< F that keeps what the backward pass reads
  FlatProgram begin;                     ///< F that keeps what R reads; only if the stage has an R
  FlatProgram rebuild;                   ///< R, if the stage has one
  FlatProgram input, weight;             ///< I, W
  FlatProgram backward;                  ///< B
  FlatProgram end;                       ///< E
  std::vector<ValueId> inputs;           ///< arguments of F
  std::vector<ValueId> rebuild_from;     ///< arguments of R
  std::vector<ValueId> loaded, stepped;  ///< results of P
  std::vector<ValueId> totals;           ///< operands of totals, arguments of E
  bool has_end = false;                  ///< E does something
};

/// All programs of a stage with their names in generated sources, `P_load` to `E`. Without those that do not exist.
std::vector<std::pair<std::string_view, const FlatProgram*>> named_programs(const StagePrograms& programs);
std::vector<std::pair<std::string_view, FlatProgram*>> named_programs(StagePrograms& programs);

/// What the programs of a stage are built from.
struct StageParts {
  const ir::Joint& joint;
  const std::optional<std::vector<ValueId>>& kept;  ///< as `StageFunctions::kept`
  const ir::FunctionTable& table;
  const StagePlaces& places;
  std::map<TaskId, TaskKernel> kernels;
  at::Device device = at::kCPU;
  bool loops = false;  ///< as `FlatSpec::loops`
};

/// The joint graph must outlive the programs.
Result<StagePrograms> build_programs(const StageParts& stage, SizeTable& sizes, SizeTable& load_sizes);

}  // namespace rannc::runtime
