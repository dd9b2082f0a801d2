// Resolves the programs of a stage.
#include "runtime/flat/stage_programs.h"

#include "runtime/aten/torch_types.h"

namespace rannc::runtime {

namespace {

template <class Programs>
auto named(Programs& programs) {
  std::vector<std::pair<std::string_view, decltype(&programs[ir::ProgramKind::kLoad])>> found;
  for (size_t i = 0; i < ir::kProgramKinds; ++i) {
    const auto kind = static_cast<ir::ProgramKind>(i);
    if (programs[kind].exists()) found.emplace_back(name(kind), &programs[kind]);
  }
  return found;
}

}  // namespace

std::vector<std::pair<std::string_view, const FlatProgram*>> named_programs(const StagePrograms& programs) {
  return named(programs);
}

std::vector<std::pair<std::string_view, FlatProgram*>> named_programs(StagePrograms& programs) {
  return named(programs);
}

Result<StagePrograms> build_programs(const StageParts& stage, SizeTable& sizes, SizeTable& load_sizes) {
  const ir::Joint& joint = stage.joint;
  ir::LoweringOptions options{.device = stage.lowered_for.type,
                              .flash_attention = stage.lowered_for.flash_attention,
                              .origins = joint.origins,
                              .loops = stage.loops,
                              .resident = resident_values(joint.graph, stage.table)};
  for (const auto& [task, kernel] : stage.kernels) options.exchanges.push_back(task);
  ir::ProgramLowering lowering(joint.graph, std::move(options));
  ir::StageSpecs specs = stage_specs(joint, stage.recomputes, stage.table, stage.places);
  StagePrograms made{.inputs = std::move(specs.inputs),
                     .rebuild_from = std::move(specs.rebuild_from),
                     .loaded = std::move(specs.loaded),
                     .stepped = std::move(specs.stepped),
                     .totals = std::move(specs.totals)};
  for (size_t i = 0; i < ir::kProgramKinds; ++i) {
    const auto kind = static_cast<ir::ProgramKind>(i);
    if (!specs[kind]) continue;
    RANNC_ASSIGN(ir::Program program, lowering.lower(*specs[kind]));
    SizeTable& of = kind == ir::ProgramKind::kLoad ? load_sizes : sizes;
    RANNC_ASSIGN(made[kind], FlatProgram::resolve(std::move(program), {stage.device, stage.kernels}, of));
  }
  const ir::StageFunction& end = stage.table[ir::FunctionKind::kStepEnd];
  made.has_end = !end.tasks.empty() || !end.results.empty();
  return made;
}

}  // namespace rannc::runtime
