// What no planner can price is refused by rule, with the place named.
#include "partition/stages/problem/problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "partition/stages/registry.h"

namespace rannc::partition {
namespace {

StageProblem sound() {
  StageProblem problem;
  problem.blocks = 3;
  problem.times.push_back({{1, 4}, {{1, 2, 3}, {4, 8, 12}}, {{2, 4, 6}, {8, 16, 24}}, {}});
  problem.parameter_bytes = {10, 20, 30};
  problem.stashed_bytes_per_sample = {5, 5, 5};
  problem.values = {{0, {1, 2}, 4, 0, true}, {1, {2}, 4, 0, true}};
  problem.cluster = *preset_cluster("flat:2");
  problem.mini_batch = 4;
  return problem;
}

TEST(StageProblem, SoundProblemsPass) { EXPECT_TRUE(validate(sound()).ok()); }

struct Breakage {
  const char* rule;
  const char* named;  ///< in the message
  std::function<void(StageProblem&)> apply;
};

TEST(StageProblem, EachRuleNamesWhatItFound) {
  const double infinite = std::numeric_limits<double>::infinity();
  const Breakage breakages[] = {
      {"C1", "no blocks", [](StageProblem& p) { p.blocks = 0; }},
      {"C1", "parameter size", [](StageProblem& p) { p.parameter_bytes.pop_back(); }},
      {"C1", "weight gradients",
       [](StageProblem& p) {
         p.times[0].weight_gradient = {{1, 1, 1}};
       }},
      {"C1", "kinds of device", [](StageProblem& p) { p.times.clear(); }},
      {"C2", "stash of block 1 is -1", [](StageProblem& p) { p.stashed_bytes_per_sample[1] = -1; }},
      {"C2", "forward time of block 2", [&](StageProblem& p) { p.times[0].forward[0][2] = infinite; }},
      {"C2", "backward time of block 0", [](StageProblem& p) { p.times[0].backward[1][0] = 1e61; }},
      {"C2", "parameter size of block 0", [](StageProblem& p) { p.parameter_bytes[0] = std::nan(""); }},
      {"C2", "weight gradient of block 1",
       [](StageProblem& p) {
         p.times[0].weight_gradient = {{1, 5, 1}, {1, 1, 1}};
       }},
      {"C2", "value 1", [](StageProblem& p) { p.values[1].bytes = -4; }},
      {"C2", "time limit", [](StageProblem& p) { p.step_limit_ns = 0; }},
      {"C3", "readers ascend",
       [](StageProblem& p) {
         p.values[0].readers = {2, 1};
       }},
      {"C3", "read by block 7", [](StageProblem& p) { p.values[0].readers = {7}; }},
      {"C3", "shared holding 0 is needed by block 3",
       [](StageProblem& p) {
         p.shared = {{SharedHolding::Kind::kParameter, {0, 3}, 0, 8}};
       }},
      {"C3", "needed by no block",
       [](StageProblem& p) {
         p.shared = {{SharedHolding::Kind::kBuffer, {}, 0, 8}};
       }},
      {"C2", "shared holding 0 has -8",
       [](StageProblem& p) {
         p.shared = {{SharedHolding::Kind::kInput, {1}, -8, 0}};
       }},
      {"C1", "1 rebuild hulls",
       [](StageProblem& p) {
         p.rebuild_hulls.assign(1, {{0, 0}});
       }},
      {"C1", "block 1 has no points",
       [](StageProblem& p) {
         p.rebuild_hulls = {{{0, 0}}, {}, {{0, 0}}};
       }},
      {"C2", "block 2 keeps 4 bytes and repeats a share of 1.5",
       [](StageProblem& p) {
         p.rebuild_hulls = {{{0, 0}}, {{0, 0}}, {{4, 1.5}}};
       }},
      {"C3", "point 1 of the rebuild hull of block 0",
       [](StageProblem& p) {
         p.rebuild_hulls = {{{4, 0.5}, {5, 0.5}}, {{0, 0}}, {{0, 0}}};
       }},
      {"C4", "no devices", [](StageProblem& p) { p.cluster.devices.clear(); }},
      {"C5", "cut 3", [](StageProblem& p) { p.constraints.forbidden_cuts = {3}; }},
      {"C5", "0 stages", [](StageProblem& p) { p.constraints.stages = 0; }},
      {"C5", "0 replicas",
       [](StageProblem& p) {
         p.constraints.stages = 2;
         p.constraints.replicas = {1, 0};
       }},
      {"C5", "number of stages must be fixed",
       [](StageProblem& p) {
         p.constraints.pins = {{0, 0}};
       }},
      {"C6", "sizes ascend",
       [](StageProblem& p) {
         p.times[0].sizes = {4, 1};
       }},
      {"C7", "no samples", [](StageProblem& p) { p.mini_batch = 0; }},
  };
  for (const Breakage& breakage : breakages) {
    SCOPED_TRACE(breakage.named);
    StageProblem problem = sound();
    breakage.apply(problem);
    for (const std::string& name : stage_planner_names()) {
      const auto outcome = make_planner(name)->plan(problem);
      ASSERT_FALSE(outcome.ok()) << name;
      EXPECT_EQ(outcome.diagnostic().rule, breakage.rule) << outcome.diagnostic().message;
      EXPECT_NE(outcome.diagnostic().message.find(breakage.named), std::string::npos) << outcome.diagnostic().message;
    }
  }
}

// The largest costs that are allowed, and nothing but zeros, still get an answer from every planner.
TEST(StageProblem, ExtremeCostsAreAnswered) {
  for (const double cost : {0.0, 1e30, 1e60}) {
    StageProblem problem = sound();
    for (auto* rows : {&problem.times[0].forward, &problem.times[0].backward}) {
      for (auto& row : *rows) row.assign(3, cost);
    }
    problem.parameter_bytes.assign(3, cost);
    problem.stashed_bytes_per_sample.assign(3, cost);
    for (BlockValue& value : problem.values) value.bytes_per_sample = cost;
    for (const std::string& name : stage_planner_names()) {
      SCOPED_TRACE(name);
      const auto outcome = make_planner(name)->plan(problem);
      ASSERT_TRUE(outcome.ok());
      EXPECT_TRUE(cost == 0 || std::holds_alternative<Infeasible>(*outcome));
    }
  }
}

}  // namespace
}  // namespace rannc::partition
