// Costs at both ends of what a plan holds, and devices of several sizes.
#include <fmt/format.h>

#include "tests/partition/model/planned_models.h"
#include "tests/support/planning.h"

namespace rannc::test {
namespace {

using partition::DeviceKind;
using partition::TaskCost;
using partition::TaskFacts;

/// The same time for every task and sample.
class EvenCosts final : public partition::CostModel {
 public:
  explicit EvenCosts(double ns) : ns_(ns) {}
  Result<TaskCost> price(const TaskFacts& /*facts*/, uint64_t samples, const DeviceKind& /*device*/) const override {
    TaskCost cost;
    cost.forward_ns = cost.input_gradient_ns = cost.recompute_ns = ns_ * static_cast<double>(samples);
    return cost;
  }
  std::string fingerprint() const override { return "e7e7"; }

 private:
  double ns_;
};

// Eight micro-batches of less than a nanosecond each, and a P: a stage takes no less than its tasks.
TEST(PlanLimits, TimesBelowANanosecondAreRoundedUp) {
  const Prepared model = small_bert();
  auto options = options_for("flat:1", 8);
  const EvenCosts costs(0.9 / static_cast<double>(model.atoms.tasks.size()));
  options.costs = std::shared_ptr<const partition::CostModel>(&costs, [](const auto*) {});
  options.training = false;
  options.micro_batches = {8};
  const auto plan = planned(model, options);
  EXPECT_EQ(plan.plan.stage_times[0].forward_ns, 1);
  EXPECT_EQ(plan.plan.begin_ns, std::vector<int64_t>{1}) << "the transposed word embedding";
  EXPECT_EQ(plan.plan.step_ns, 8 + 1);
  EXPECT_EQ(plan.plan.lower_bound_ns, 7) << "7.2 ns of work";
}

TEST(PlanLimits, TimesThatNoPlanHoldsAreNamed) {
  const Prepared model = small_bert();
  auto options = options_for("flat:1", 8);
  const EvenCosts costs(1e18);
  options.costs = std::shared_ptr<const partition::CostModel>(&costs, [](const auto*) {});
  const auto outcome = partition::plan_model(model.graph, model.atoms, with_passes(model.graph, options));
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.diagnostic().str().find("stage 0 would take"), std::string::npos) << outcome.diagnostic().str();
}

/// A large fast device and a small slow one.
partition::Cluster unequal(uint64_t large, uint64_t small) {
  auto cluster = partition::make_cluster("two", {"large", large, 8e12, 8e11, 0}, 1, 2, {1e11, 0}, {1e11, 0});
  cluster.kinds.push_back({"small", small, 1e12, 1e11, 0});
  cluster.devices[1].kind = 1;
  return cluster;
}

// Blocks say a little less than the finished plan needs. Where the small device has room for what blocks say alone, the
// stages are chosen again for it; the large device keeps its own limit.
TEST(PlanLimits, AnOverfullSmallDeviceDoesNotLimitTheLargeOne) {
  const Prepared model = small_bert();
  int replanned = 0;
  std::string seen;
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
    for (const uint32_t mini_batch : {2U, 8U, 32U}) {
      for (const auto recompute : {partition::RecomputeRule::kNever, partition::RecomputeRule::kAlways}) {
        auto options = options_for("flat:2", mini_batch);
        options.cluster = unequal(uint64_t{1} << 40, uint64_t{1} << 40);
        options.constraints.stages = 2;
        options.recompute = recompute;
        options.schedule = schedule;
        const auto roomy = planned(model, options);
        ASSERT_EQ(roomy.plan.devices.size(), 2u);
        const size_t stage = roomy.stages.stages[0].devices[0] == DeviceId(1) ? 0 : 1;
        const double judged = roomy.stages.stages[stage].peak_bytes;
        const auto finished = static_cast<double>(roomy.plan.predictions[1].peak_bytes);
        const auto large = static_cast<double>(roomy.plan.predictions[0].peak_bytes);
        seen += fmt::format("{} {} {}: judged {} finished {} large {}\n", schedule, mini_batch,
                            static_cast<int>(recompute), judged, finished, large);
        if (finished <= judged || large < 1.2 * finished) continue;
        ++replanned;
        const double limit = (judged + finished) / 2;
        options.cluster = unequal(uint64_t{1} << 40, static_cast<uint64_t>(limit));
        const auto tight = planned(model, options);
        EXPECT_GT(static_cast<double>(fullest(tight.plan)), limit) << "on the large device";
      }
    }
  }
  EXPECT_GT(replanned, 0) << "no case shows it:\n" << seen;
}

}  // namespace
}  // namespace rannc::test
