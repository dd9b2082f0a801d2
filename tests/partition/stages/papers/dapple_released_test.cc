// The released planner of DAPPLE's authors on their profiles: the plans and speedups that it prints.
#include "partition/stages/papers/dapple_released.h"

#include <gtest/gtest.h>

#include "tests/partition/stages/support/oracle.h"
#include "tests/partition/stages/support/profiles.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

const std::vector<uint32_t> kTwoByEight{8, 8}, kSixteenByOne(16, 1);
constexpr ReleasedLinks kEthernet25{1e9, 3e9, 25e9}, kEthernet10{1e9, 1.2e9, 25e9};

/// A row of the reproduction: profile, its batch, mini-batch, micro-batch, machines, links.
struct Row {
  const char* file;
  uint64_t profile_batch, mini_batch, micro_batch;
  const std::vector<uint32_t>& machines;
  ReleasedLinks links = kEthernet25;
};

class Released {
 public:
  explicit Released(const Row& row)
      : options_{row.machines, row.links, row.profile_batch, row.mini_batch, row.micro_batch} {
    const auto profile = testing::shared_profile(std::string("dapple/") + row.file);
    if (!profile) return;
    states_ = cut_states(*profile).value();
    plans_ = released_plans(*states_, options_);
  }
  bool at_hand() const { return states_.has_value(); }
  const ReleasedPlan& best() const { return plans_.front(); }
  const ReleasedPlan& best_of(const char* kind) const {
    return *std::find_if(plans_.begin(), plans_.end(), [&](const ReleasedPlan& plan) { return plan.kind == kind; });
  }
  double overlapped(double parameter_copies, double activation_per_sample) const {
    return released_data_parallel_overlapped(*states_, options_, {16e9, parameter_copies, activation_per_sample});
  }
  uint32_t states() const { return states_->size(); }

 private:
  ReleasedOptions options_;
  std::optional<CutStates> states_;
  std::vector<ReleasedPlan> plans_;
};

/// `14:2 at 16`.
std::string text(const ReleasedPlan& plan) {
  std::string replicas, cuts;
  for (const ReleasedStage& stage : plan.stages) {
    replicas += (replicas.empty() ? "" : ":") + std::to_string(stage.devices.size());
    if (stage.from != 0) cuts += (cuts.empty() ? " at " : ",") + std::to_string(stage.from);
  }
  return replicas + cuts;
}

bool straight(const ReleasedPlan& plan, size_t stages) {
  return plan.stages.size() == stages && std::all_of(plan.stages.begin(), plan.stages.end(),
                                                     [](const auto& stage) { return stage.devices.size() == 1; });
}

#define RANNC_RELEASED(name, ...)        \
  const Released name(Row{__VA_ARGS__}); \
  if (!name.at_hand()) GTEST_SKIP() << "no shared data at hand"

// Table 6: (0, 16) @ G0-G13, (17, 25) @ G14, G15.
TEST(DappleReleased, Vgg19Of1024OnA) {
  RANNC_RELEASED(vgg, "vgg-19-pbs-32.txt", 32, 1024, 1, kTwoByEight);
  EXPECT_EQ(text(vgg.best()), "14:2 at 16");
  EXPECT_EQ(vgg.best().stages[1].devices, (std::vector<uint32_t>{14, 15}));
  EXPECT_NEAR(vgg.best().speedup, 13.84, 0.005);
}

// Tables 4 and 6: a machine for each half, 18:18 layers.
TEST(DappleReleased, Xlnet36OnA) {
  RANNC_RELEASED(xlnet, "xlnet-36-pbs-1.txt", 1, 128, 1, kTwoByEight);
  EXPECT_EQ(text(xlnet.best()), "8:8 at 22");
  EXPECT_EQ(xlnet.best().stages[1].devices, (std::vector<uint32_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_NEAR(xlnet.best().speedup, 14.82, 0.005);
}

TEST(DappleReleased, Xlnet36OnB) {
  RANNC_RELEASED(xlnet, "xlnet-36-pbs-1.txt", 1, 128, 1, kSixteenByOne);
  EXPECT_EQ(text(xlnet.best()), "8:8 at 22");
  EXPECT_NEAR(xlnet.best().speedup, 11.93, 0.006);
}

// Table 4 has 23:25 layers, this is 24 + 24.
TEST(DappleReleased, Bert48OnA) {
  RANNC_RELEASED(bert, "bert-48-pbs-2.txt", 2, 64, 2, kTwoByEight);
  EXPECT_EQ(text(bert.best()), "8:8 at 30");
  EXPECT_NEAR(bert.best().speedup, 12.34, 0.005);
}

TEST(DappleReleased, Bert48OnBAndCIsStraight) {
  RANNC_RELEASED(b, "bert-48-pbs-2.txt", 2, 64, 2, kSixteenByOne);
  EXPECT_TRUE(straight(b.best(), 16)) << text(b.best());
  EXPECT_NEAR(b.best().speedup, 9.73, 0.006);
  RANNC_RELEASED(c, "bert-48-pbs-2.txt", 2, 64, 2, kSixteenByOne, kEthernet10);
  EXPECT_TRUE(straight(c.best(), 16)) << text(c.best());
}

TEST(DappleReleased, Xlnet36OnCIsStraight) {
  RANNC_RELEASED(xlnet, "xlnet-36-pbs-1.txt", 1, 128, 1, kSixteenByOne, kEthernet10);
  EXPECT_TRUE(straight(xlnet.best(), 16)) << text(xlnet.best());
}

// Table 4: data parallelism on A and B, since it overlaps its all-reduces.
TEST(DappleReleased, Vgg19Of2048IsDataParallelOnAAndB) {
  RANNC_RELEASED(a, "vgg-19-pbs-32.txt", 32, 2048, 32, kTwoByEight);
  RANNC_RELEASED(b, "vgg-19-pbs-32.txt", 32, 2048, 32, kSixteenByOne);
  EXPECT_NEAR(a.best().speedup, 12.06, 0.005);
  EXPECT_NEAR(b.best().speedup, 10.31, 0.005);
  const double kept = (5.6e9 - 4 * 0.548e9) / 32;
  EXPECT_NEAR(a.overlapped(4, kept), 14.61, 0.005);
  EXPECT_NEAR(b.overlapped(4, kept), 14.61, 0.005);
}

// Table 4: 15:1 on 10 Gbit/s, cut between 13 and 6 weighted layers.
TEST(DappleReleased, Vgg19Of2048OnC) {
  RANNC_RELEASED(vgg, "vgg-19-pbs-32.txt", 32, 2048, 32, kSixteenByOne, kEthernet10);
  EXPECT_EQ(text(vgg.best()), "15:1 at 17");
  EXPECT_NEAR(vgg.best().speedup, 9.20, 0.005);
  EXPECT_NEAR(vgg.overlapped(4, (5.6e9 - 4 * 0.548e9) / 32), 8.06, 0.005);
}

// Other constants for 10 Gbit/s cut one layer later.
TEST(DappleReleased, Vgg19OnCDependsOnTheConstants) {
  RANNC_RELEASED(vgg, "vgg-19-pbs-32.txt", 32, 2048, 32, kSixteenByOne, ReleasedLinks{1.25e9, 1.25e9, 25e9});
  EXPECT_EQ(text(vgg.best()), "15:1 at 18");
}

// The baseline of data parallelism: with all outputs kept and parameters once, too rosy; with Table 1's memory, below
// the hybrid plans.
TEST(DappleReleased, OverlapBaselineDependsOnMemory) {
  RANNC_RELEASED(bert, "bert-48-pbs-2.txt", 2, 64, 2, kTwoByEight);
  RANNC_RELEASED(xlnet, "xlnet-36-pbs-1.txt", 1, 128, 1, kTwoByEight);
  const auto outputs = [](const char* file) {
    double bytes = 0;
    const auto profile = testing::shared_profile(file);
    for (const ProfileNode& node : profile->nodes) {
      if (!node.description.starts_with("Input")) bytes += node.activation_sum();
    }
    return bytes;
  };
  EXPECT_NEAR(bert.overlapped(1, outputs("dapple/bert-48-pbs-2.txt") / 2), 13.80, 0.005);
  EXPECT_NEAR(xlnet.overlapped(1, outputs("dapple/xlnet-36-pbs-1.txt")), 15.29, 0.005);
  // 640 M and 500 M parameters of four bytes.
  EXPECT_NEAR(bert.overlapped(4, (11.4e9 - 4 * 2.56e9) / 2), 6.85, 0.005);
  EXPECT_NEAR(xlnet.overlapped(4, 12e9 - 4 * 2.0e9), 10.96, 0.005);
}

// Table 4's kinds of plan; its split is 9:7 layers, these are 8:8, 10:6 and straight. All 1,495 states are searched.
TEST(DappleReleased, Gnmt16) {
  RANNC_RELEASED(a, "gnmt-16-pbs-64.txt", 64, 1024, 64, kTwoByEight);
  EXPECT_EQ(a.states(), 1495u);
  EXPECT_TRUE(text(a.best()).starts_with("8:8 at ")) << text(a.best());
  EXPECT_NEAR(a.best().speedup, 9.39, 0.005);
  RANNC_RELEASED(b, "gnmt-16-pbs-64.txt", 64, 1024, 64, kSixteenByOne);
  EXPECT_TRUE(text(b.best()).starts_with("8:8 at ")) << text(b.best());
  RANNC_RELEASED(c, "gnmt-16-pbs-64.txt", 64, 1024, 64, kSixteenByOne, kEthernet10);
  EXPECT_TRUE(straight(c.best(), 16)) << text(c.best());
}

// Table 4's replicas for AmoebaNet-36 from the profile of AmoebaNet-18; Table 6 places them by machine.
TEST(DappleReleased, Amoeba) {
  RANNC_RELEASED(a, "amoeba-18-pbs-8.txt", 8, 128, 1, kTwoByEight);
  EXPECT_EQ(text(a.best()), "8:8 at 18");
  RANNC_RELEASED(b, "amoeba-18-pbs-8.txt", 8, 128, 1, kSixteenByOne);
  EXPECT_EQ(text(b.best()), "11:5 at 18");
  RANNC_RELEASED(c, "amoeba-18-pbs-8.txt", 8, 128, 1, kSixteenByOne, kEthernet10);
  EXPECT_EQ(text(c.best()), "11:5 at 18");
}

/// Four groups of layers as in ResNet-50 at 128 samples: 24.5 M parameters, most of them late; 1 GB/s of gradients
/// hides behind the backward pass.
CutStates resnet_like() {
  CutStates states;
  const double compute[] = {0.060, 0.110, 0.130, 0.140, 0.060}, parameters[] = {0.1e6, 0.9e6, 5e6, 28e6, 64e6},
               output[] = {103e6, 411e6, 206e6, 103e6, 1e6};
  for (uint32_t s = 0; s < 5; ++s) {
    states.compute_s.push_back(compute[s] + (s > 0 ? states.compute_s.back() : 0));
    states.parameter_bytes.push_back(parameters[s] + (s > 0 ? states.parameter_bytes.back() : 0));
    states.output_bytes.push_back(output[s]);
    states.before.emplace_back();
    for (uint32_t k = 0; k < s; ++k) states.before.back().push_back(k);
  }
  return states;
}

// Table 4: data parallelism on all three clusters.
TEST(DappleReleased, ResNetLikeIsDataParallel) {
  const CutStates states = resnet_like();
  for (const auto& [machines, links] :
       {std::pair{kTwoByEight, kEthernet25}, {kSixteenByOne, kEthernet25}, {kSixteenByOne, kEthernet10}}) {
    const ReleasedOptions options{machines, links, 128, 2048, 32};
    const double parallel = released_data_parallel_overlapped(states, options, {16e9, 4, 1e9 / 128});
    EXPECT_GT(parallel, released_plans(states, options).front().speedup);
    EXPECT_GT(parallel, 14);
  }
}

// Three stages of one device on a chain: 2 + 2 | 4 | 1 + 3 has the least bottleneck; nothing to send or reduce.
TEST(DappleReleased, StraightByHand) {
  CutStates states;
  states.compute_s = {2, 4, 8, 9, 12};
  states.parameter_bytes.assign(5, 0);
  states.output_bytes.assign(5, 0);
  for (uint32_t s = 0; s < 5; ++s) {
    states.before.emplace_back();
    for (uint32_t k = 0; k < s; ++k) states.before.back().push_back(k);
  }
  const auto plans = released_plans(states, {{3}, {}, 1, 12, 1});
  const auto found = std::find_if(plans.begin(), plans.end(), [](const auto& plan) { return plan.kind == "straight"; });
  ASSERT_NE(found, plans.end());
  EXPECT_EQ(text(*found), "1:1:1 at 2,3");
  // Total 144 s; blocks of 4 s, 11 of them, and 12 s for the last micro-batch.
  EXPECT_DOUBLE_EQ(found->speedup, 144.0 / (11 * 4 + 12));
}

TEST(DappleReleased, PlannerAnswersRandomProblems) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const StageProblem problem =
        testing::random_problem(random, {.unequal = seed % 2 == 1, .tight = seed % 3 == 0, .skips = true});
    const auto outcome = dapple_released_planner()->plan(problem);
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    const auto* plan = std::get_if<StagePlan>(&*outcome);
    if (plan == nullptr) continue;
    EXPECT_GE(plan->objective, plan->lower_bound);
    EXPECT_EQ(*plan, std::get<StagePlan>(*dapple_released_planner()->plan(problem)));
  }
}

}  // namespace
}  // namespace rannc::partition
