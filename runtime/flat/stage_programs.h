/// The functions of a stage as flat programs.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/program/stage_programs.h"
#include "runtime/flat/flat_program.h"

namespace rannc::runtime {

/// Values of a stage's joint graph that its signature names. Sums are the leaves of the signature.
struct StagePlaces : ir::StagePorts {
  std::vector<ValueId> inputs;                          ///< by port
  std::vector<ValueId> parameters, buffers, constants;  ///< by weight; invalid: no task reads it
  std::vector<ValueId> random_inputs;                   ///< by random input
  std::vector<std::optional<size_t>>
      input_gradients;  ///< by input port: index in `Joint::inputs`; nothing: no gradient
};

/// All programs of one stage.
struct StagePrograms {
  ir::ByProgram<FlatProgram> programs;
  std::vector<ValueId> inputs;           ///< arguments of F
  std::vector<ValueId> rebuild_from;     ///< arguments of R
  std::vector<ValueId> loaded, stepped;  ///< results of P
  std::vector<ValueId> totals;           ///< operands of totals, arguments of E
  bool has_end = false;                  ///< E does something

  FlatProgram& operator[](ir::ProgramKind kind) { return programs[kind]; }
  const FlatProgram& operator[](ir::ProgramKind kind) const { return programs[kind]; }
};

/// All programs of a stage with their names in generated sources, `P_load` to `E`. Without those that do not exist.
std::vector<std::pair<std::string_view, const FlatProgram*>> named_programs(const StagePrograms& programs);
std::vector<std::pair<std::string_view, FlatProgram*>> named_programs(StagePrograms& programs);

/// What the programs of a stage are built from.
struct StageParts {
  const ir::Joint& joint;
  bool recomputes = false;  ///< the stage has an R
  const ir::FunctionTable& table;
  const StagePlaces& places;
  std::map<TaskId, TaskKernel> kernels;  ///< of the tasks that replicas compute together
  at::Device device = at::kCPU;
  ir::DeviceKernels lowered_for = {};  ///< kernels that the device has
  bool loops = false;                  ///< as `ir::LoweringOptions::loops`; such programs have to be compiled
};

/// The joint graph must outlive the programs.
Result<StagePrograms> build_programs(const StageParts& stage, SizeTable& sizes, SizeTable& load_sizes);

}  // namespace rannc::runtime
