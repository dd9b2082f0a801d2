// RaNNC's boundary moves on the papers' models: each lowers what crosses, or leaves it and evens the work.
#include <optional>
#include <vector>

#include "frontend/zoo/amoebanet.h"
#include "frontend/zoo/resnet.h"
#include "frontend/zoo/unet.h"
#include "partition/blocks/rannc_blocks.h"
#include "partition/cost/analytic.h"
#include "partition/metrics.h"
#include "partition/model/atom_dag.h"
#include "passes/training/differentiate.h"
#include "tests/partition/model/planned_models.h"

namespace rannc::test {
namespace {

namespace zoo = frontend::zoo;

/// Compares the crossing cost after every move with the one before.
class Moves final : public partition::BlockRecorder {
 public:
  explicit Moves(const partition::Dag& dag) : dag_(dag) {}
  void step(partition::BlockStep step, std::span<const uint32_t> group_of, uint32_t groups) override {
    if (step == partition::BlockStep::kMerge) {
      merged_.assign(group_of.begin(), group_of.end());
      groups_ = groups;
    }
    if (step != partition::BlockStep::kMove) return;
    if (!last_) last_ = partition::measure(dag_, merged_, groups_).crossing_cost;
    const double cost = partition::measure(dag_, group_of, groups).crossing_cost;
    lowered += cost < *last_ * (1 - 1e-9);
    raised += cost > *last_ * (1 + 1e-9);
    last_ = cost;
  }
  uint32_t lowered = 0, raised = 0;

 private:
  const partition::Dag& dag_;
  std::vector<uint32_t> merged_;
  uint32_t groups_ = 0;
  std::optional<double> last_;
};

partition::Dag task_graph(const Prepared& model) {
  const partition::Cluster cluster = partition::preset_cluster("rannc-1x8").value();
  const ir::Bindings assume;
  const auto costs =
      partition::price_model(model.graph, cluster, *partition::analytic_costs(), partition::sample_sizes(8), assume)
          .value();
  const ir::Joint joint = passes::differentiate(model.graph).value();
  const auto memory = partition::TaskMemory::of(model.graph, joint, assume, cluster).value();
  const auto updates = ir::ParameterUpdates::of(model.graph, ir::PlanOptimizer{"adam", 0, false, {}}).value();
  const partition::ModelFacts facts{.graph = model.graph,
                                    .atoms = model.atoms,
                                    .costs = costs,
                                    .memory = memory,
                                    .assume = assume,
                                    .updates = updates};
  return partition::atom_dag(facts, cluster, {.reference = 8, .smallest_share = 1}).value();
}

uint32_t moves_that_lower(const Prepared& model, uint32_t blocks) {
  const partition::Dag dag = task_graph(model);
  Moves moves(dag);
  partition::BlockOptions options;
  options.blocks = blocks;
  options.recorder = &moves;
  const auto outcome = partition::RanncBlocks(true).partition(dag, options);
  EXPECT_TRUE(outcome.ok() && outcome->partition);
  EXPECT_EQ(moves.raised, 0U);
  return moves.lowered;
}

TEST(Uncoarsening, EveryMoveOnTheZoosModelsLowersWhatCrosses) {
  zoo::ResNetConfig resnet;
  zoo::UNetConfig unet;
  zoo::AmoebaNetConfig amoebanet;
  const std::pair<const char*, Prepared> models[] = {
      {"BERT", small_bert()},
      {"ResNet", prepared(model(resnet, zoo::write_resnet), "cross_entropy(output=logits)")},
      {"U-Net", prepared(model(unet, zoo::write_unet), "mse(output=mask)")},
      {"AmoebaNet", prepared(model(amoebanet, zoo::write_amoebanet), "cross_entropy(output=logits)")},
  };
  for (const auto& [name, prepared] : models) {
    uint32_t lowered = 0;
    for (const uint32_t blocks : {4U, 16U}) lowered += moves_that_lower(prepared, blocks);
    EXPECT_GT(lowered, 0U) << name << ": no boundary was moved";
  }
}

}  // namespace
}  // namespace rannc::test
