// Searches for stages over more and more blocks: how many there are where nothing fits, and what they find.
#include "partition/model/choose_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/training/differentiate.h"
#include "tests/partition/model/planned_models.h"

namespace rannc::test {
namespace {

using partition::AutoOptions;
using partition::Infeasible;
using partition::PlannedModel;
using partition::StageOutcome;
using partition::StagePlan;
using partition::StageProblem;

/// The problems that are searched: under the schedules that come first, under the lean ones, and under both.
struct Searches {
  std::vector<StageProblem> first, lean, whole;
};

std::vector<uint32_t> blocks(const std::vector<StageProblem>& problems) {
  std::vector<uint32_t> counts;
  for (const StageProblem& problem : problems) counts.push_back(problem.blocks);
  return counts;
}

/// Planner `auto`, which records its problems.
class Recorded final : public partition::StagePlanner {
 public:
  Recorded(AutoOptions options, Searches& searches) : options_(std::move(options)), searches_(searches) {}
  std::string name() const override { return "auto"; }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token stop) const override {
    const bool never = options_.lean == AutoOptions::Lean::kNever;
    (never ? searches_.first : options_.refused ? searches_.lean : searches_.whole).push_back(problem);
    return partition::auto_planner(options_)->plan(problem, std::move(stop)).value();
  }

  AutoOptions options_;
  Searches& searches_;
};

/// A small BERT for four devices.
class ChooseStages : public ::testing::Test {
 protected:
  ChooseStages()
      : model_(small_bert()),
        options_(options_for("flat:4", 32)),
        joint_(passes::differentiate(model_.graph).value()),
        costs_(partition::price_model(model_.graph, options_.cluster, *options_.costs,
                                      partition::sample_sizes(options_.mini_batch), options_.assume)
                   .value()),
        memory_(partition::TaskMemory::of(model_.graph, joint_, options_.assume, options_.cluster).value()),
        updates_(ir::ParameterUpdates::of(model_.graph, options_.optimizer).value()),
        facts_{model_.graph, model_.atoms, costs_, memory_, options_.assume, true, updates_} {
    options_.planner = "auto";
    options_.blocks = 4;
    options_.micro_batches = {8};
    options_.search.rivals = AutoOptions::Rivals::kExcluded;
  }

  std::variant<PlannedModel, Infeasible> choose(Searches& searches) const {
    const auto make = [&](AutoOptions options) { return std::make_unique<Recorded>(std::move(options), searches); };
    return partition::choose_stages(*make(partition::search_of(options_)), options_, facts_,
                                    partition::memory_of_kinds(options_), make)
        .value();
  }

  /// Searches of the same problems from scratch: the first plan, or the closest refusal.
  StageOutcome from_scratch(const std::vector<StageProblem>& problems) const {
    std::optional<Infeasible> closest;
    for (const StageProblem& problem : problems) {
      StageOutcome outcome = partition::auto_planner(partition::search_of(options_))->plan(problem).value();
      if (std::holds_alternative<StagePlan>(outcome)) return outcome;
      const Infeasible& reason = std::get<Infeasible>(outcome);
      if (!closest || reason.missing_bytes < closest->missing_bytes) closest = reason;
    }
    return *closest;
  }

  Prepared model_;
  partition::PlanOptions options_;
  ir::Joint joint_;
  partition::ModelCosts costs_;
  partition::TaskMemory memory_;
  ir::ParameterUpdates updates_;
  partition::ModelFacts facts_;
};

TEST_F(ChooseStages, RepeatsNoSearchWhereNothingFits) {
  int refused = 0, finer = 0, lean = 0;
  for (const uint64_t limit : {600'000, 1'500'000, 1'780'000, 1'820'000, 1'900'000}) {
    SCOPED_TRACE(limit);
    options_.constraints.memory_bytes = limit;
    Searches searches;
    const auto outcome = choose(searches);
    EXPECT_TRUE(searches.whole.empty()) << "these repeat the first searches";
    const auto counts = blocks(searches.first);
    for (size_t i = 1; i < counts.size(); ++i) EXPECT_LT(counts[i - 1], counts[i]);
    const auto* const planned = std::get_if<PlannedModel>(&outcome);
    if (planned != nullptr && searches.lean.empty()) {
      EXPECT_EQ(planned->blocks.partition.count, counts.back());
      finer += counts.size() > 1 ? 1 : 0;
      continue;
    }
    if (searches.first.empty()) continue;  // a task fits no device
    const StageOutcome expected = from_scratch(searches.first);
    if (planned == nullptr) {
      EXPECT_EQ(blocks(searches.lean), counts) << "each once";
      EXPECT_EQ(StageOutcome(std::get<Infeasible>(outcome)), expected);
      ++refused;
      continue;
    }
    EXPECT_EQ(StageOutcome(planned->stages), expected);
    EXPECT_EQ(planned->problem.blocks, searches.lean.back().blocks);
    EXPECT_EQ(planned->blocks.atoms.tasks(), model_.atoms.tasks.size());
    EXPECT_EQ(planned->remarks.empty(), searches.lean.size() == 1);
    ++lean;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(finer, 0);
  EXPECT_GT(lean, 0);
}

}  // namespace
}  // namespace rannc::test
