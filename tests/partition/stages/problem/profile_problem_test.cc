// Profiles that no planner can price are refused by rule.
#include "partition/stages/problem/profile_problem.h"

#include <gtest/gtest.h>

namespace rannc::partition {
namespace {

PipedreamProfile chain() {
  PipedreamProfile profile;
  profile.nodes = {{"node1", "Linear", 1, 2, {4}, 8, {}}, {"node2", "Linear", 1, 2, {4}, 8, {}}};
  profile.edges = {{0, 1}};
  return profile;
}

TEST(ProfileProblem, E1_ACycle) {
  PipedreamProfile profile = chain();
  ASSERT_TRUE(profile_problem(profile, *preset_cluster("flat:2"), {}).ok());
  profile.edges.push_back({1, 0});
  const auto found = profile_problem(profile, *preset_cluster("flat:2"), {});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().rule, "E1");
  EXPECT_NE(found.diagnostic().message.find("node2"), std::string::npos) << found.diagnostic().str();
}

TEST(ProfileProblem, E2_ACostOutOfRange) {
  PipedreamProfile profile = chain();
  profile.nodes[1].backward_ms = -1;
  const auto found = profile_problem(profile, *preset_cluster("flat:2"), {});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().rule, "E2");
  EXPECT_NE(found.diagnostic().message.find("node 'node2' (Linear): backward_compute_time is -1"), std::string::npos)
      << found.diagnostic().str();
}

}  // namespace
}  // namespace rannc::partition
