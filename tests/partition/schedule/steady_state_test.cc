/// Leaving out periods of a simulation's steady part changes no time.
#include "partition/schedule/steady_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/schedule/lower_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "tests/partition/schedule/shapes.h"

namespace rannc::partition {
namespace {

uint64_t pick(std::mt19937_64& random, uint64_t low, uint64_t high) { return low + random() % (high - low + 1); }

/// A schedule under random times, with links and ports that may be shared in part.
struct Instance {
  ir::PipelineShape shape;
  ir::Schedule schedule;
  ScheduleCosts costs;
};

double random_time(std::mt19937_64& random, bool whole) {
  if (whole) return static_cast<double>(pick(random, 0, 9));
  return std::exp(static_cast<double>(pick(random, 0, 400)) / 100) * 1.7;
}

StageLayout layout_of(const std::string& name) {
  if (name == "interleaved") return StageLayout::kLoop;
  return name == "zb-v" || name == "v-half" || name == "v-min" ? StageLayout::kV : StageLayout::kOnePerRank;
}

Instance random_instance(std::mt19937_64& random, const std::string& name, uint32_t most_micro_batches) {
  Instance one;
  const auto ranks = static_cast<uint32_t>(pick(random, 1, 6));
  const auto count = static_cast<uint32_t>(pick(random, 1, most_micro_batches));
  const StageLayout layout = layout_of(name);
  one.shape = laid_out(layout, ranks, count);
  const auto stages = static_cast<uint32_t>(one.shape.stages.size());
  const bool whole = pick(random, 0, 1) == 0;
  if (pick(random, 0, 2) == 0 && stages > 2) {
    const auto from = static_cast<uint32_t>(pick(random, 0, stages - 3));
    one.shape.routes.push_back({StageId(from), StageId(static_cast<uint32_t>(pick(random, from + 2, stages - 1))), 1,
                                pick(random, 0, 1) == 0});
  }
  for (auto& route : one.shape.routes) route.bytes_per_sample = static_cast<int64_t>(pick(random, 0, 8));
  for (uint32_t s = 0; s < stages; ++s) {
    one.shape.stages[s].recompute = layout == StageLayout::kOnePerRank && pick(random, 0, 3) == 0;
    one.costs.compute.push_back({{random_time(random, whole), random_time(random, whole), random_time(random, whole),
                                  random_time(random, whole)}});
  }
  std::vector<LinkCost> links;
  std::vector<double> shares;
  for (uint32_t i = 0; i < ranks * ranks; ++i) {
    links.push_back({random_time(random, whole) / 2, random_time(random, whole) / 8});
    shares.push_back(static_cast<double>(pick(random, 1, 4)) / 4);
  }
  one.costs.link = [links, ranks](DeviceId from, DeviceId to) { return links[from.index() * ranks + to.index()]; };
  if (pick(random, 0, 1) == 0) {
    one.costs.resources = [shares, ranks](DeviceId from, DeviceId to) {
      return std::vector<Hold>{{2 * from.index(), shares[from.index() * ranks + to.index()]},
                               {2 * to.index() + 1},
                               {2 * ranks + from.index() / 2}};
    };
  }
  ScheduleSpec spec;
  spec.name = name;
  for (uint32_t s = 0, depth = static_cast<uint32_t>(pick(random, stages, 3 * stages)); s < stages; ++s) {
    spec.warmup.push_back(depth);
    depth -= std::min(depth - 1, static_cast<uint32_t>(pick(random, 0, 2)));
  }
  one.schedule = make_schedule(one.shape, spec).value();
  return one;
}

const char* const kNames[] = {"1f1b",  "dapple-b",    "warmup", "gpipe",  "zb-h1",
                              "zb-h2", "interleaved", "zb-v",   "v-half", "v-min"};

/// Whether leaving out periods changes a time; adds up how many actions were left out.
void expect_equal_times(const Instance& one, uint64_t& omitted, uint64_t& actions) {
  SimulationOptions options;
  options.contention = true;
  options.spans = options.memory = false;
  options.grain = std::ldexp(1, -32);
  const Timeline whole = simulate(one.shape, one.schedule, one.costs, options).value();
  options.skip_periods = true;
  const Timeline skipped = simulate(one.shape, one.schedule, one.costs, options).value();
  ASSERT_EQ(skipped.makespan, whole.makespan);
  for (uint32_t d = 0; d < one.shape.devices; ++d) {
    ASSERT_EQ(skipped.devices[d].first, whole.devices[d].first);
    ASSERT_EQ(skipped.devices[d].last, whole.devices[d].last);
    ASSERT_EQ(skipped.devices[d].busy, whole.devices[d].busy);
  }
  ASSERT_LE(skipped.simulated, whole.simulated);
  omitted += whole.simulated - skipped.simulated;
  actions += whole.simulated;
  // Rounding itself moves times by no more than its own size, an action at a time.
  options.skip_periods = false;
  options.grain = 0;
  const double exact = simulate(one.shape, one.schedule, one.costs, options).value().makespan;
  ASSERT_NEAR(whole.makespan, exact, 1e-8 * exact);
}

// The sums are exact, so the times are equal to the last bit.
TEST(SteadyState, LeavesEveryTimeAsItIs) {
  int recognised = 0;
  uint64_t omitted = 0, actions = 0;
  for (int i = 0; i < 3000; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) * 7919 + 5);
    const std::string name = kNames[i % 10];
    const bool slow = name == "v-half" || name == "v-min";  // to generate
    SCOPED_TRACE("instance " + std::to_string(i) + ", " + name);
    const uint64_t before = omitted;
    expect_equal_times(random_instance(random, name, slow ? 60 : 160), omitted, actions);
    if (HasFatalFailure()) return;
    recognised += omitted > before;
  }
  RecordProperty("found", recognised);
  RecordProperty("percent_left_out", static_cast<int>(100 * omitted / actions));
  EXPECT_GE(recognised, 1500);
  EXPECT_GE(omitted * 2, actions);
}

// When stage 0 has done I0, stage 1 is at I2, whose gradient is still to come; 4 later it is at W0, which sends
// nothing.
TEST(SteadyState, WhatIsUnderWayMustRepeatToo) {
  Instance one;
  one.shape = ir::chain_shape(3, 3);
  one.costs.compute = {{{1, 2, 2, 0}}, {{1, 4, 4, 0}}, {{1, 1, 1, 0}}};
  one.costs.link = [](DeviceId, DeviceId) { return LinkCost{5, 0}; };
  one.schedule = make_schedule(one.shape, {.name = "zb-h2"}).value();
  uint64_t omitted = 0, actions = 0;
  expect_equal_times(one, omitted, actions);
  EXPECT_EQ(omitted, 0u);
}

/// One to three replicas for each stage, and the sends, reductions and steps of finished plans.
Instance replicated(std::mt19937_64& random, const std::string& name) {
  Instance one = random_instance(random, name, 100);
  one.costs.resources = nullptr;
  one.shape.devices = 0;
  for (auto& stage : one.shape.stages) {
    stage.devices.clear();
    for (uint64_t r = pick(random, 1, 3); r > 0; --r) stage.devices.push_back(DeviceId(one.shape.devices++));
    stage.sums = static_cast<uint32_t>(pick(random, 1, 3));
    auto& sums = one.costs.all_reduce.emplace_back();
    for (uint32_t i = 0; i < stage.sums; ++i) {
      sums.push_back({random_time(random, true), pick(random, 0, 1) * random_time(random, false)});
    }
    one.costs.step.push_back(random_time(random, true));
  }
  one.shape.micro_batches.assign(one.shape.micro_batches.size(), static_cast<uint32_t>(pick(random, 1, 7)));
  const double latency = random_time(random, true), per_byte = random_time(random, true) / 8;
  one.costs.link = [=](DeviceId from, DeviceId to) {
    return LinkCost{latency, per_byte * (1 + static_cast<double>((from.index() + to.index()) % 3))};
  };
  const ir::Schedule rows = make_schedule(one.shape, {.name = name}).value();
  one.schedule = ir::lower_schedule(one.shape, rows).value();
  return one;
}

TEST(SteadyState, LeavesFinishedPlansAsTheyAre) {
  int recognised = 0;
  uint64_t omitted = 0, actions = 0;
  const char* const names[] = {"1f1b", "dapple-b", "zb-h1", "gpipe"};
  for (int i = 0; i < 600; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) * 104729 + 3);
    const Instance one = replicated(random, names[i % 4]);
    SCOPED_TRACE("instance " + std::to_string(i));
    const uint64_t before = omitted;
    expect_equal_times(one, omitted, actions);
    if (HasFatalFailure()) return;
    recognised += omitted > before;
  }
  EXPECT_GE(recognised, 150);
}

// While stage 0 works, two sums of stage 1 follow each other. Neither waits for the other stage.
TEST(SteadyState, SumsUnderWayArePartOfNoPeriod) {
  Instance one;
  one.shape = ir::chain_shape(2, 60);
  one.shape.devices = 3;
  one.shape.routes.clear();
  one.shape.stages[1].devices = {DeviceId(1), DeviceId(2)};
  one.shape.stages[1].sums = 2;
  one.shape.micro_batches.assign(60, 2);
  one.costs.compute = {{{1, 10, 0, 0}}, {{1, 1, 0, 0}}};
  one.costs.all_reduce = {{}, {{50, 0.5}, {200, 0.25}}};
  const ir::Schedule rows = make_schedule(one.shape, {.name = "1f1b"}).value();
  one.schedule = ir::lower_schedule(one.shape, rows).value();
  uint64_t omitted = 0, actions = 0;
  expect_equal_times(one, omitted, actions);
  EXPECT_GT(omitted, 20u) << "before and after";
}

// What 1F1B simulates does not grow with the number of micro-batches.
TEST(SteadyState, LongMiniBatchesCostNoMoreThanShortOnes) {
  uint64_t simulated[2];
  double makespan[2];
  const uint32_t counts[] = {128, 4096};
  for (int i = 0; i < 2; ++i) {
    const ir::PipelineShape shape = ir::chain_shape(4, counts[i]);
    ScheduleCosts costs;
    costs.compute = {{{3, 5, 2, 0}}, {{4, 6, 1, 0}}, {{3, 6, 1, 0}}, {{4, 4, 2, 0}}};
    costs.link = [](DeviceId, DeviceId) { return LinkCost{1, 0}; };
    SimulationOptions options;
    options.contention = options.skip_periods = true;
    options.spans = options.memory = false;
    const auto schedule = make_schedule(shape, {.name = "1f1b"}).value();
    const Timeline timeline = simulate(shape, schedule, costs, options).value();
    simulated[i] = timeline.simulated;
    makespan[i] = timeline.makespan;
  }
  EXPECT_EQ(simulated[0], simulated[1]);
  EXPECT_LE(simulated[1], 200u);
  EXPECT_GT(makespan[1], 30 * makespan[0]);
}

TEST(SteadyState, IsRefusedWhereNoPeriodsCouldBeLeftOut) {
  const ir::PipelineShape shape = ir::chain_shape(2, 2);
  const auto schedule = make_schedule(shape, {.name = "1f1b"}).value();
  EXPECT_FALSE(simulate(shape, schedule, {}, {.skip_periods = true}).ok());
  EXPECT_FALSE(simulate(shape, schedule, {}, {.contention = true, .skip_periods = true}).ok());
  EXPECT_TRUE(simulate(shape, schedule, {}, {.contention = true, .spans = false, .skip_periods = true}).ok());
}

}  // namespace
}  // namespace rannc::partition
