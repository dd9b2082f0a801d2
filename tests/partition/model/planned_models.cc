#include "tests/partition/model/planned_models.h"

#include <algorithm>

#include "frontend/zoo/bert.h"
#include "ir/verify.h"
#include "partition/cost/analytic.h"
#include "passes/fusions/fuse.h"
#include "passes/pipeline.h"
#include "tests/support/planning.h"

namespace rannc::test {

namespace zoo = frontend::zoo;

uint64_t Prepared::elements(ir::ValueKind kind) const {
  uint64_t count = 0;
  for (const ValueId id : graph.values()) {
    if (graph.value(id).kind == kind && graph.type(id).shape)
      count += static_cast<uint64_t>(ir::element_count(*graph.type(id).shape).constant());
  }
  return count;
}

Prepared prepared(const Build& build, const std::string& loss) {
  Prepared model;
  auto graph = written_and_read(build, zoo::Weights::kAbsent);
  if (!graph) return model;
  model.graph = std::move(*graph);
  passes::PipelineOptions options;
  options.excluded = passes::shortening_passes();  // operators as papers count them
  options.losses = passes::parse_losses(loss).value();
  passes::PassContext context;
  const auto report = passes::standard_pipeline(options).run(model.graph, context);
  EXPECT_TRUE(report.ok()) << report.failure->str();
  if (context.atoms) model.atoms = std::move(*context.atoms);
  return model;
}

Prepared small_bert() {
  zoo::BertConfig config;
  config.layers = 4;
  config.width = 64;
  config.heads = 4;
  config.sequence = 32;
  config.vocabulary = 50;
  return prepared(model(config, zoo::write_bert), "cross_entropy(output=logits)+cross_entropy(output=next_sentence)");
}

partition::PlanOptions options_for(const std::string& cluster, uint32_t mini_batch) {
  partition::PlanOptions options;
  options.cluster = partition::preset_cluster(cluster).value();
  options.costs = partition::analytic_costs();
  options.mini_batch = mini_batch;
  options.optimizer.name = "adam";
  options.planner = "rannc";
  return options;
}

partition::PlannedModel planned(const Prepared& model, const partition::PlanOptions& options) {
  auto outcome = partition::plan_model(model.graph, model.atoms, with_passes(model.graph, options));
  EXPECT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  if (!outcome.ok()) return {};
  if (const auto* infeasible = std::get_if<partition::Infeasible>(&*outcome)) {
    ADD_FAILURE() << "no plan: " << infeasible->reason;
    return {};
  }
  auto plan = std::get<partition::PlannedModel>(std::move(outcome).value());
  const auto wrong = ir::verify(plan.plan);
  EXPECT_TRUE(wrong.empty()) << wrong.front().str();
  return plan;
}

partition::Infeasible refused(const Prepared& model, const partition::PlanOptions& options) {
  auto outcome = partition::plan_model(model.graph, model.atoms, with_passes(model.graph, options));
  EXPECT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  if (!outcome.ok()) return {};
  const auto* infeasible = std::get_if<partition::Infeasible>(&*outcome);
  EXPECT_NE(infeasible, nullptr) << "there is a plan";
  return infeasible == nullptr ? partition::Infeasible{} : *infeasible;
}

uint64_t fullest(const ir::Plan& plan) {
  uint64_t most = 0;
  for (const ir::Prediction& device : plan.predictions) most = std::max(most, device.peak_bytes);
  return most;
}

}  // namespace rannc::test
