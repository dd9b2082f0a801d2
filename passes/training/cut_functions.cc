#include "passes/training/cut_functions.h"

#include "ir/verify.h"
#include "passes/training/differentiate.h"

namespace rannc::passes {

namespace {

Result<ir::StageFunctions> joint_of(const ir::StageGraph& stage) {
  ir::StageFunctions cut;
  RANNC_ASSIGN(cut.joint, differentiate(stage.graph, {stage.returned, stage.sources, stage.device}));
  RANNC_TRY(ir::as_result(ir::verify(cut.joint, stage.graph)));
  return cut;
}

}  // namespace

Result<ir::StageFunctions> cut_functions(const ir::StageGraph& stage) {
  RANNC_ASSIGN(ir::StageFunctions cut, joint_of(stage));
  RANNC_TRY(ir::as_result(ir::verify(cut, ir::function_table(cut))));
  return cut;
}

Result<void> cut_functions(ir::Plan& plan) {
  return cut_functions(plan, [](StageId, const ir::Joint& joint) { return ir::kept_by_whole_recompute(joint); });
}

Result<void> cut_functions(ir::Plan& plan, const ChooseKept& choose) {
  std::vector<std::shared_ptr<const ir::StageFunctions>> functions;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    RANNC_ASSIGN(ir::StageFunctions cut, joint_of(ir::stage_graph(plan, StageId::from(s))));
    if (plan.stages[s].recompute) {
      RANNC_ASSIGN(cut.kept, choose(StageId::from(s), cut.joint));
    }
    RANNC_TRY(ir::as_result(ir::verify(cut, ir::function_table(cut))));
    functions.push_back(std::make_shared<const ir::StageFunctions>(std::move(cut)));
  }
  plan.functions = std::move(functions);
  return {};
}

}  // namespace rannc::passes
