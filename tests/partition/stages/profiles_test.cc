// On published profiles the planner that simulates is never worse than any other planner alone.
#include "tests/partition/stages/support/profiles.h"

#include <gtest/gtest.h>

#include "partition/stages/judge/judge.h"
#include "partition/stages/papers/dapple.h"
#include "partition/stages/problem/profile_problem.h"
#include "partition/stages/registry.h"
#include "partition/stages/search/auto.h"
#include "tests/partition/stages/support/judging.h"

namespace rannc::partition {
namespace {

struct Cell {
  const char* profile;
  const char* cluster;
  uint64_t mini_batch;  ///< of the paper's Table 4, where it has the model
  double alone = 1;     ///< what the own search needs at most, of the best other planner's time
};

/// All other planners, and DAPPLE's as its paper chooses: by the formula.
std::vector<std::unique_ptr<StagePlanner>> others() {
  std::vector<std::unique_ptr<StagePlanner>> planners;
  for (const std::string& name : rival_names()) planners.push_back(make_planner(name));
  planners.push_back(dapple_planner({.choice = DappleChoice::kLatency}));
  return planners;
}

/// Every planner plans alone, as its authors would, and is judged under its own schedule as it will run. So does the
/// own search, which nobody gives candidates: it needs at most `most` of the best other time.
void expect_never_worse(const StageProblem& problem, double most) {
  const auto outcome = auto_planner()->plan(problem);
  const auto& chosen = std::get<StagePlan>(*outcome);
  AutoOptions own;
  own.rivals = AutoOptions::Rivals::kExcluded;
  const auto alone_outcome = auto_planner(own)->plan(problem);
  const auto& found = std::get<StagePlan>(*alone_outcome);
  PlanJudge judge(problem);
  int compared = 0;
  for (const auto& planner : others()) {
    const auto alone = planner->plan(problem);
    const auto* plan = std::get_if<StagePlan>(&*alone);
    if (plan == nullptr) continue;
    StagePlan judged = *plan;
    if (!testing::judge_as_run(judge, judged)) continue;
    ++compared;
    EXPECT_LE(chosen.objective, judged.objective * (1 + 1e-9)) << planner->name() << ' ' << brief(judged);
    EXPECT_LE(found.objective, most * judged.objective * (1 + 1e-9)) << planner->name() << ' ' << brief(judged);
    EXPECT_LE(chosen.lower_bound, judged.objective * (1 + 1e-9)) << planner->name();
  }
  EXPECT_GE(compared, 5);
  EXPECT_LE(chosen.lower_bound, chosen.objective);
  EXPECT_GT(chosen.lower_bound, 0);
}

StageProblem problem_of(const PipedreamProfile& profile, const Cell& cell) {
  return profile_problem(profile, *preset_cluster(cell.cluster),
                         {.profile_batch = profile_batch_of(cell.profile).value_or(1), .mini_batch = cell.mini_batch})
      .value();
}

class PublishedProfiles : public ::testing::TestWithParam<Cell> {};

TEST_P(PublishedProfiles, AutoIsNeverWorseThanAPlannerAlone) {
  const auto profile = testing::shared_profile(GetParam().profile);
  if (!profile) GTEST_SKIP() << "no shared data at hand";
  StageProblem problem = problem_of(*profile, GetParam());
  // The profiles' activations include what recompute would drop: as in their planner's own experiments, none is short.
  for (DeviceKind& kind : problem.cluster.kinds) kind.memory_bytes = 1ull << 45;
  expect_never_worse(problem, GetParam().alone);
}

#ifdef RANNC_ALL_PROFILES
constexpr Cell kCells[] = {{"dapple/bert-48-pbs-2.txt", "dapple-a", 64},
                           {"dapple/bert-48-pbs-2.txt", "dapple-b", 64},
                           {"dapple/bert-48-pbs-2.txt", "dapple-c", 64},
                           {"dapple/xlnet-36-pbs-1.txt", "dapple-a", 128},
                           {"dapple/xlnet-36-pbs-1.txt", "dapple-b", 128},
                           {"dapple/xlnet-36-pbs-1.txt", "dapple-c", 128},
                           {"dapple/vgg-19-pbs-32.txt", "dapple-a", 2048},
                           {"dapple/vgg-19-pbs-32.txt", "dapple-b", 2048},
                           {"dapple/vgg-19-pbs-32.txt", "dapple-c", 2048},
                           {"dapple/gnmt-16-pbs-64.txt", "dapple-a", 1024},
                           {"dapple/gnmt-16-pbs-64.txt", "dapple-b", 1024},
                           {"dapple/gnmt-16-pbs-64.txt", "dapple-c", 1024},
                           {"dapple/amoeba-18-pbs-8.txt", "dapple-a", 128, 1.06},
                           {"dapple/amoeba-18-pbs-8.txt", "dapple-b", 128},
                           {"dapple/amoeba-18-pbs-8.txt", "dapple-c", 128},
                           {"pipedream/vgg16.txt", "dapple-a", 512},
                           {"pipedream/vgg16.txt", "dapple-b", 512},
                           {"pipedream/vgg16.txt", "dapple-c", 512},
                           {"pipedream/alexnet.txt", "dapple-a", 512},
                           {"pipedream/alexnet.txt", "dapple-b", 512},
                           {"pipedream/alexnet.txt", "dapple-c", 512},
                           {"pipedream/resnet18.txt", "dapple-a", 512},
                           {"pipedream/resnet18.txt", "dapple-b", 512},
                           {"pipedream/resnet18.txt", "dapple-c", 512},
                           {"pipedream/resnet50.txt", "dapple-a", 512},
                           {"pipedream/resnet50.txt", "dapple-b", 512},
                           {"pipedream/resnet50.txt", "dapple-c", 512},
                           {"pipedream/resnet101.txt", "dapple-a", 512},
                           {"pipedream/resnet101.txt", "dapple-b", 512},
                           {"pipedream/resnet101.txt", "dapple-c", 512},
                           {"pipedream/squeezenet1_0.txt", "dapple-a", 512},
                           {"pipedream/squeezenet1_0.txt", "dapple-b", 512},
                           {"pipedream/squeezenet1_0.txt", "dapple-c", 512},
                           {"pipedream/gnmt.txt", "dapple-a", 512},
                           {"pipedream/gnmt.txt", "dapple-b", 512},
                           {"pipedream/gnmt.txt", "dapple-c", 512},
                           {"pipedream/inception_v3.txt", "dapple-a", 512},
                           {"pipedream/inception_v3.txt", "dapple-c", 512},
                           {"pipedream/nasnetamobile.txt", "dapple-a", 512},
                           {"pipedream/nasnetamobile.txt", "dapple-c", 512}};
#else
constexpr Cell kCells[] = {{"dapple/vgg-19-pbs-32.txt", "dapple-c", 2048},
                           {"dapple/amoeba-18-pbs-8.txt", "dapple-a", 128, 1.06},
                           {"pipedream/vgg16.txt", "dapple-c", 512}};
#endif

INSTANTIATE_TEST_SUITE_P(Cells, PublishedProfiles, ::testing::ValuesIn(kCells), [](const auto& info) {
  std::string name = std::string(info.param.profile) + "_on_" + info.param.cluster;
  for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return name;
});

// A twin of such a profile: convolutions with large activations, then two layers that hold most parameters.
TEST(CheckedInProfile, AutoIsNeverWorseThanAPlannerAlone) {
  const PipedreamProfile profile = testing::checked_in_profile("convolutions-pbs-4.txt");
  const Cell cell{"convolutions-pbs-4.txt", "dapple-c", 240};
  StageProblem problem = problem_of(profile, cell);
  ASSERT_EQ(problem.blocks, 8u) << "without the input";
  problem.overlap_sums = false;
  expect_never_worse(problem, 1);
  // What it is a twin of: nearly all devices share the convolutions, and none reduces the dense layers' gradients.
  const auto late = std::get<StagePlan>(*auto_planner()->plan(problem));
  ASSERT_EQ(late.stages.size(), 2u) << brief(late);
  EXPECT_EQ(late.stages[0].devices.size(), 15u) << brief(late);
  EXPECT_EQ(late.stages[1].devices.size(), 1u) << brief(late);
  // Their sum of 0.7 s fits into the backward pass of the convolutions, of 1.8 s.
  problem.overlap_sums = true;
  expect_never_worse(problem, 1);
  const auto plan = std::get<StagePlan>(*auto_planner()->plan(problem));
  EXPECT_EQ(brief(plan), "16");
  EXPECT_LT(plan.step_ns, late.step_ns);
}

}  // namespace
}  // namespace rannc::partition
