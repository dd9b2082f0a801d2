/// The exact figures of "Pipelined Model Parallelism: Complexity Results and Memory Considerations".
#include "partition/schedule/periodic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "tests/partition/schedule/published.h"

namespace rannc::partition {
namespace {

using published::split;

using testing::ElementsAre;

ScheduleCosts costs_of(const ChainTimes& times) {
  ScheduleCosts costs;
  for (size_t s = 0; s < times.forward.size(); ++s)
    costs.compute.push_back({{times.forward[s], times.backward[s], 0, 0}});
  return costs;
}

/// Peaks of a schedule in activations, found by simulating 40 batches.
std::vector<int64_t> peaks(const ir::PipelineShape& shape, const ScheduleSpec& spec) {
  const auto schedule = make_schedule(shape, spec).value();
  std::vector<int64_t> result;
  for (const auto& device : simulate(shape, schedule, costs_of(spec.times)).value().devices) {
    result.push_back(device.peak_bytes);
  }
  return result;
}

void expect_activations(const std::vector<double>& loads, double period, const std::vector<uint32_t>& expected) {
  ScheduleSpec spec{.name = "1f1b-star", .times = split(loads), .period = period};
  const auto shape = ir::chain_shape(static_cast<uint32_t>(loads.size()), 40);
  EXPECT_EQ(star_groups(loads, period), expected) << period;
  const Pattern pattern = one_f_one_b_star(spec.times, period).value();
  for (size_t s = 0; s < loads.size(); ++s) EXPECT_EQ(pattern.concurrent(s), expected[s]) << period << " stage " << s;
  EXPECT_THAT(peaks(shape, spec), testing::ElementsAreArray(expected)) << period;
}

TEST(OneFOneBStar, GroupsAreTheActivations) {
  for (const auto& row : published::stars()) expect_activations(row.loads, row.period, row.activations);
}

TEST(OneFOneBStar, EightEqualStagesArePlain1F1B) {
  const auto shape = ir::chain_shape(8, 12);
  const ScheduleSpec star{.name = "1f1b-star", .times = split(std::vector<double>(8, 2)), .period = 2};
  EXPECT_EQ(ir::print_compute_rows(make_schedule(shape, star).value()),
            ir::print_compute_rows(make_schedule(shape, {.name = "1f1b"}).value()));
}

TEST(OneFOneBStar, HopsCountAsStages) {
  ChainTimes times = split({2, 2, 2});
  times.hop = {0.5, 0.5};
  // Stages and hops: 2 1 2 1 2. T=2: every one is a group of its own. T=3: (2 | 1 2 | 1 2) from the right.
  const Pattern tight = one_f_one_b_star(times, 2).value();
  EXPECT_THAT((std::vector<uint32_t>{tight.concurrent(0), tight.concurrent(1), tight.concurrent(2)}),
              ElementsAre(5, 3, 1));
  const Pattern loose = one_f_one_b_star(times, 3).value();
  EXPECT_THAT((std::vector<uint32_t>{loose.concurrent(0), loose.concurrent(1), loose.concurrent(2)}),
              ElementsAre(3, 2, 1));
}

TEST(OneFOneBStar, PeriodBelowALoadIsRefusedByName) {
  const auto result = one_f_one_b_star(split({1, 3}), 2.5);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message, testing::HasSubstr("2.5 is less than 3"));
}

/// Property behind Theorem 3: dependencies hold, nothing overlaps modulo T, groups bound the activations.
TEST(OneFOneBStar, RandomPatternsAreValid) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<double> loads;
    for (size_t s = 0, n = 1 + random() % 9; s < n; ++s) loads.push_back(static_cast<double>(1 + random() % 8));
    const double largest = *std::max_element(loads.begin(), loads.end());
    const double period = largest + static_cast<double>(random() % 12);
    const ChainTimes times = split(loads);
    const Pattern p = one_f_one_b_star(times, period).value();
    const auto groups = star_groups(loads, period);
    for (size_t s = 0; s < loads.size(); ++s) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " stage " + std::to_string(s));
      EXPECT_GE(p.backward_start[s], p.forward_end[s] - 1e-9);
      const size_t before = s > 0 ? s - 1 : 0;
      EXPECT_GE(p.forward_start[s], s > 0 ? p.forward_end[before] - 1e-9 : 0);
      EXPECT_GE(p.backward_start[before], s > 0 ? p.backward_end[s] - 1e-9 : 0);
      const double gap = std::fmod(p.backward_start[s] - p.forward_start[s], period);
      EXPECT_GE(gap, times.forward[s] - 1e-9);
      EXPECT_LE(gap, period - times.backward[s] + 1e-9);
      EXPECT_LE(p.concurrent(s), groups[s]);
    }
  }
}

/// The least concurrent activations of each stage over all 1-periodic patterns with whole starts. Constraints are
/// differences of starts with whole bounds, so other starts are no better.
std::vector<uint32_t> least_activations(const std::vector<int>& forward, const std::vector<int>& backward, int period) {
  const size_t stages = forward.size();
  std::vector<uint32_t> least(stages, UINT32_MAX);
  std::vector<int> at(2 * stages, 0);  // F of each stage, then B of each stage, modulo the period; the first F is at 0
  const auto apart = [&](int from, int to, int duration) {  // the earliest start of `to` after `from` has ended
    int wait = (to - from - duration) % period;
    return duration + (wait < 0 ? wait + period : wait);
  };
  const auto overlap = [&](size_t s) {
    const int gap = (at[stages + s] - at[s] + period) % period;
    return gap < forward[s] || gap > period - backward[s];
  };
  const auto visit = [&](const auto& self, size_t action) -> void {
    if (action == 2 * stages) {
      int delay = 0;  // from F's start to B's start
      for (size_t s = stages; s-- > 0;) {
        delay = s + 1 == stages ? apart(at[s], at[stages + s], forward[s])
                                : delay + apart(at[s], at[s + 1], forward[s]) +
                                      apart(at[stages + s + 1], at[stages + s], backward[s + 1]);
        least[s] = std::min(least[s], static_cast<uint32_t>((delay + backward[s] + period - 1) / period));
      }
      return;
    }
    for (at[action] = 0; at[action] < period; ++at[action]) {
      if (action < stages || !overlap(action - stages)) self(self, action + 1);
    }
  };
  visit(visit, 1);
  return least;
}

/// Theorem 3: no 1-periodic pattern of the period has less at any stage.
TEST(OneFOneBStar, NoPatternHasFewerActivations) {
  uint32_t several = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const size_t stages = 1 + seed % 3;
    std::vector<int> forward, backward;
    int longest = 0;
    for (size_t s = 0; s < stages; ++s) {
      forward.push_back(static_cast<int>(1 + random() % 2));
      backward.push_back(static_cast<int>(1 + random() % 3));
      longest = std::max(longest, forward.back() + backward.back());
    }
    const int period = longest + static_cast<int>(random() % 5);
    ChainTimes times{{forward.begin(), forward.end()}, {backward.begin(), backward.end()}, {}};
    const Pattern star = one_f_one_b_star(times, period).value();
    const std::vector<uint32_t> least = least_activations(forward, backward, period);
    for (size_t s = 0; s < stages; ++s) {
      EXPECT_EQ(star.concurrent(s), least[s]) << "seed " << seed << " stage " << s << " period " << period;
      several += least[s] > 1;
    }
  }
  EXPECT_GT(several, 100u);
}

TEST(WarmUpByLatency, LiesBetweenThePoliciesOfDapple) {
  ChainTimes times = split({3, 3, 3, 3});
  EXPECT_EQ(warmup_by_latency(times), warmup_a(4));
  times.hop = {0.5, 0.5, 0.5};
  EXPECT_EQ(warmup_by_latency(times), warmup_b(4));
  times.hop = {2, 2, 2};  // longer than a period there and back: two batches are on each link
  EXPECT_THAT(warmup_by_latency(times), ElementsAre(10, 7, 4, 1));
  times.hop = {0.5, 0.5, 0.5};
  EXPECT_THAT(warmup_by_latency(times, std::vector<uint32_t>{9, 2, 9, 9}), ElementsAre(7, 2, 2, 1));
  times = split({3, 1, 1, 3});  // light stages and their hops share a period
  times.hop = {0.5, 0.5, 0.5};
  EXPECT_THAT(warmup_by_latency(times), ElementsAre(4, 3, 2, 1));
}

/// With these depths the slowest stage never waits in the steady part; with one less at the first stage it does, or the
/// first stage was not limiting.
TEST(WarmUpByLatency, KeepsTheSlowestStageBusy) {
  uint32_t limiting = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<double> loads;
    for (size_t s = 0, n = 2 + random() % 5; s < n; ++s) loads.push_back(static_cast<double>(1 + random() % 6));
    ScheduleSpec spec{.name = "latency", .times = split(loads)};
    const double latency = static_cast<double>(random() % 9) / 2;
    spec.times.hop.assign(loads.size() - 1, latency);
    const auto shape = ir::chain_shape(static_cast<uint32_t>(loads.size()), 160);
    ScheduleCosts costs = costs_of(spec.times);
    costs.link = [&](DeviceId, DeviceId) { return LinkCost{latency, 0}; };
    const auto period = [&](const ScheduleSpec& chosen) {
      const auto schedule = make_schedule(shape, chosen).value();
      return period_between(schedule, simulate(shape, schedule, costs).value(), 60, 120);
    };
    const double least = *std::max_element(loads.begin(), loads.end());
    EXPECT_NEAR(period(spec), least, 1e-6) << "seed " << seed;
    ScheduleSpec less{.name = "warmup"};
    less.warmup = warmup_by_latency(spec.times);
    if (--less.warmup[0] == 0) continue;
    for (uint32_t& depth : less.warmup) depth = std::min(depth, less.warmup[0]);
    limiting += period(less) > least + 1e-6;
  }
  EXPECT_GT(limiting, 100u);
}

/// Theorem 4: k+1 equal layers; normalised period 2(1+1/k) with k activations at the first layer.
TEST(KPeriodic, TheoremFour) {
  const struct {
    uint32_t k;
    double normalised;
  } kRows[] = {{2, 3.0}, {3, 8.0 / 3}, {4, 2.5}, {5, 2.4}};
  for (const auto& [k, normalised] : kRows) {
    const uint32_t m = 20 * k;
    ScheduleSpec spec{.name = "k-periodic", .k = k};
    spec.times.forward = spec.times.backward = std::vector<double>(k + 1, 1.0);
    auto shape = ir::chain_shape(k + 1, m);
    shape.memory_bytes.assign(k + 1, k + 1);  // M = k+1, W = (1, 1, 2, ..., k)
    for (uint32_t s = 0; s <= k; ++s) shape.stages[s].fixed_bytes = std::max(1u, s);
    const auto schedule = make_schedule(shape, spec).value();
    const auto lowered = ir::lower_schedule(shape, schedule).value();
    EXPECT_TRUE(ir::check_schedule(shape, lowered).ok()) << ir::check_schedule(shape, lowered).diagnostic().str();
    const auto timeline = simulate(shape, schedule, costs_of(spec.times)).value();
    EXPECT_NEAR(period_between(schedule, timeline, 4 * k, 14 * k), normalised, 1e-9) << k;
    EXPECT_EQ(timeline.devices[0].peak_bytes, 1 + k);  // NCA of the first layer is k
    // The pattern without gaps does not fit this memory.
    spec.name = "1f1b-star";
    spec.period = 2;
    EXPECT_EQ(ir::check_schedule(shape, ir::lower_schedule(shape, make_schedule(shape, spec).value()).value())
                  .diagnostic()
                  .rule,
              "S11");
    // j < k batches per pattern are slower.
    for (uint32_t j = 1; j < k; ++j) {
      spec = {.name = "k-periodic", .times = spec.times, .k = j};
      const auto slower = make_schedule(shape, spec).value();
      const auto result = simulate(shape, slower, costs_of(spec.times)).value();
      EXPECT_NEAR(period_between(slower, result, 4 * j, 14 * j), 2 * (1 + 1.0 / j), 1e-9);
    }
  }
}

/// Section 5.2: on P equal stages a smaller k takes longer and holds less.
TEST(KPeriodic, TradesThroughputForMemory) {
  constexpr uint32_t kStages = 8;
  const auto shape = ir::chain_shape(kStages, 280);
  int64_t before = 0;
  for (uint32_t k = 1; k < kStages; ++k) {
    ScheduleSpec spec{.name = "k-periodic", .times = split(std::vector<double>(kStages, 2)), .k = k};
    const auto schedule = make_schedule(shape, spec).value();
    EXPECT_NEAR(period_between(schedule, simulate(shape, schedule, costs_of(spec.times)).value(), 4 * k, 32 * k),
                2 * (1 + 1.0 / k), 1e-9)
        << k;
    const std::vector<int64_t> held = peaks(shape, spec);
    // Of the P−s batches that stage s holds without gaps, every (k+1)-th is left out.
    for (uint32_t s = 0; s < kStages; ++s)
      EXPECT_EQ(held[s], kStages - s - (kStages - s) / (k + 1)) << k << " stage " << s;
    const int64_t all = std::accumulate(held.begin(), held.end(), int64_t{0});
    EXPECT_GT(all, before) << k;
    before = all;
  }
}

ir::PipelineShape allocated(const std::vector<uint32_t>& device_of, uint32_t devices, uint32_t batches) {
  ir::PipelineShape shape = ir::chain_shape(static_cast<uint32_t>(device_of.size()), batches);
  shape.devices = devices;
  for (size_t s = 0; s < device_of.size(); ++s) shape.stages[s].devices = {DeviceId(device_of[s])};
  return shape;
}

double simulated_period(const ir::PipelineShape& shape, const ChainTimes& times) {
  const auto schedule = make_schedule(shape, {.name = "periodic", .times = times}).value();
  const auto lowered = ir::lower_schedule(shape, schedule).value();
  EXPECT_TRUE(ir::check_schedule(shape, lowered).ok()) << ir::check_schedule(shape, lowered).diagnostic().str();
  const uint32_t m = shape.micro_batch_count();
  return period_between(schedule, simulate(shape, schedule, costs_of(times)).value(), m / 2, m / 2 + m / 4);
}

TEST(NonContiguous, ThreeLayersOnTwoDevices) {
  const ChainTimes times = split({1, 2, 1});
  EXPECT_NEAR(simulated_period(allocated({0, 1, 0}, 2, 40), times), 2, 1e-9);
  EXPECT_NEAR(simulated_period(allocated({0, 0, 1}, 2, 40), times), 3, 1e-9);
  EXPECT_NEAR(simulated_period(allocated({0, 1, 1}, 2, 40), times), 3, 1e-9);
}

/// Lemma 2: weights (1, 2, 1), two devices with memory 2.
TEST(NonContiguous, OnlyFeasibleWay) {
  const auto feasible = [](const std::vector<uint32_t>& device_of) {
    auto shape = allocated(device_of, 2, 4);
    for (size_t s = 0; s < 3; ++s) shape.stages[s].fixed_bytes = s == 1 ? 2 : 1, shape.stages[s].saved_bytes = 0;
    shape.memory_bytes = {2, 2};
    const auto schedule = make_schedule(shape, {.name = "periodic", .times = split({1, 1, 1})}).value();
    return ir::check_schedule(shape, ir::lower_schedule(shape, schedule).value()).ok();
  };
  EXPECT_TRUE(feasible({0, 1, 0}));
  EXPECT_FALSE(feasible({0, 0, 1}));
  EXPECT_FALSE(feasible({0, 1, 1}));
}

double simulated_period(const published::Allocation& chain) {
  return simulated_period(published::shape_of(chain, 400), split(chain.loads));
}

/// Theorem 5: on chain C_k the best contiguous period is 2 − 1/k times the other, or more.
TEST(NonContiguous, TheoremFive) {
  const double kRatios[] = {1.600, 1.714, 1.778, 1.818};
  for (uint32_t k = 2; k <= 5; ++k) {
    const auto chain = published::theorem_five(k);
    const double contiguous = published::best_contiguous(chain);
    EXPECT_NEAR(simulated_period(chain), k, 1e-6) << k;
    EXPECT_NEAR(contiguous / k, kRatios[k - 2], 5e-4) << k;
    EXPECT_GT(contiguous / k, 2 - 1.0 / k);
  }
}

/// Theorem 6: memory forces the k last layers of a contiguous allocation onto one device, with period k(k−1); here the
/// period is 1 + (k−1) = k.
TEST(NonContiguous, TheoremSix) {
  for (uint32_t k = 2; k <= 6; ++k) {
    auto chain = published::theorem_six(k);
    EXPECT_NEAR(simulated_period(chain), k, 1e-9) << k;
    EXPECT_NEAR(published::best_contiguous(chain), k * (k - 1.0), 1e-9) << k;
    // The schedule's rules see the weights: the idle device gets the first of the k last layers of a contiguous one.
    auto contiguous = chain;
    for (uint32_t i = k + 1; i <= 2 * k; ++i) contiguous.device_of[i] = k + 1;
    EXPECT_NEAR(simulated_period(contiguous), k * (k - 1.0), 1e-9) << k;
    contiguous.device_of[k + 1] = k;
    const auto shape = published::shape_of(contiguous, 8);
    const auto schedule = make_schedule(shape, {.name = "periodic", .times = split(chain.loads)}).value();
    const auto checked = ir::check_schedule(shape, ir::lower_schedule(shape, schedule).value());
    ASSERT_FALSE(checked.ok()) << k;
    EXPECT_EQ(checked.diagnostic().rule, "S11");
    chain.weights.clear();
    if (k > 2) EXPECT_LT(published::best_contiguous(chain), k * (k - 1.0)) << "without weights";
  }
}

/// The least largest load of a device over all allocations, by trying them all.
double best_allocation(const std::vector<double>& loads, uint32_t devices) {
  double best = 1e300;
  std::vector<double> of_device(devices, 0);
  const auto place = [&](const auto& self, size_t layer) -> void {
    if (layer == loads.size())
      return void(best = std::min(best, *std::max_element(of_device.begin(), of_device.end())));
    for (double& load : of_device) {
      load += loads[layer];
      if (load < best) self(self, layer + 1);
      load -= loads[layer];
    }
  };
  place(place, 0);
  return best;
}

/// Theorem 5, first half: Next Fit up to twice the best period of any allocation needs no more devices than there are.
TEST(NonContiguous, NextFitIsAtMostTwiceTheBest) {
  uint32_t longer = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    published::Allocation chain{"random", {}, {}, 1 + static_cast<uint32_t>(random() % 4), 0};
    for (size_t layer = 0, n = 1 + random() % 9; layer < n; ++layer)
      chain.loads.push_back(static_cast<double>(1 + random() % (seed % 2 ? 9 : 3)));
    const double best = best_allocation(chain.loads, chain.devices);
    uint32_t used = 1;
    double load = 0;
    for (const double layer : chain.loads) {
      if (load + layer > 2 * best) ++used, load = 0;
      load += layer;
    }
    EXPECT_LE(used, chain.devices) << "seed " << seed;
    const double contiguous = published::best_contiguous(chain);
    EXPECT_GE(contiguous, best) << "seed " << seed;
    EXPECT_LE(contiguous, 2 * best) << "seed " << seed;
    longer += contiguous > best;
  }
  EXPECT_GT(longer, 200u);
}

TEST(NonContiguous, RandomAllocationsReachTheLargestLoad) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const uint32_t layers = 1 + static_cast<uint32_t>(random() % 10), devices = 1 + static_cast<uint32_t>(random() % 4);
    std::vector<double> loads;
    std::vector<uint32_t> device_of;
    for (uint32_t s = 0; s < layers; ++s) {
      loads.push_back(static_cast<double>(1 + random() % 6));
      device_of.push_back(static_cast<uint32_t>(random() % devices));
    }
    auto shape = allocated(device_of, devices, 48);
    if (layers > 2) shape.routes.push_back({StageId(0), StageId(layers - 1)});
    const ChainTimes times = split(loads);
    const double least = smallest_period(shape, times);
    EXPECT_LE(simulated_period(shape, times), least + 1e-6) << "seed " << seed;
  }
}

TEST(NonContiguous, HalfSharedReplicasAreRefused) {
  auto shape = allocated({0, 1, 0}, 2, 4);
  shape.stages[1].devices = {DeviceId(0), DeviceId(1)};
  const auto result = make_schedule(shape, {.name = "periodic", .times = split({1, 1, 1})});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message, testing::HasSubstr("stages 0 and 1 share some of their devices"));
}

// Stage 0 of four equal stages holds four batches under 1F1B*, so three are left, and six with hops of their length.
TEST(KPeriodic, DefaultSavesOneActivation) {
  ChainTimes times{{1, 1, 1, 1}, {2, 2, 2, 2}, {}};
  EXPECT_EQ(default_k(times, 0), 3U);
  times.hop = {1.5, 1.5, 1.5};
  EXPECT_EQ(default_k(times, 0), 6U);
  EXPECT_EQ(default_k({{1}, {2}, {}}, 0), 1U) << "at least one";
  EXPECT_EQ(default_k({{1, 1}, {2, 2}, {}}, 6), 1U) << "a longer period needs fewer";
}

}  // namespace
}  // namespace rannc::partition
