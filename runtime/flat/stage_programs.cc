// Resolves the programs of a stage.
#include "runtime/flat/stage_programs.h"

#include "runtime/aten/torch_types.h"

namespace rannc::runtime {

namespace {

template <class Programs>
auto by_kind(Programs& all) {
  return std::array{&all.load,    &all.step,  &all.evaluate, &all.forward,  &all.begin,
                    &all.rebuild, &all.input, &all.weight,   &all.backward, &all.end};
}

template <class Programs>
auto named(Programs& programs) {
  const auto all = by_kind(programs);
  std::vector<std::pair<std::string_view, std::remove_const_t<std::remove_reference_t<decltype(all[0])>>>> found;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i]->exists()) found.emplace_back(ir::name(static_cast<ir::ProgramKind>(i)), all[i]);
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
  ir::LoweringOptions options{.device = device_type(stage.device),
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
  const auto all = by_kind(made);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!specs.programs[i]) continue;
    RANNC_ASSIGN(ir::Program program, lowering.lower(*specs.programs[i]));
    SizeTable& of = i == static_cast<size_t>(ir::ProgramKind::kLoad) ? load_sizes : sizes;
    RANNC_ASSIGN(*all[i], FlatProgram::resolve(std::move(program), {stage.device, stage.kernels}, of));
  }
  const ir::StageFunction& end = stage.table[ir::FunctionKind::kStepEnd];
  made.has_end = !end.tasks.empty() || !end.results.empty();
  return made;
}

}  // namespace rannc::runtime
