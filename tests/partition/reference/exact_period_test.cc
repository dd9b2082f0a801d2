/// The exact solution of the formal problem of pipelined model parallelism, which no plan beats.
#include "partition/reference/exact_period.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "partition/reference/exact_rows.h"
#include "partition/reference/least_ratio_cycle.h"
#include "partition/schedule/found/row_problem.h"
#include "partition/schedule/periodic.h"
#include "tests/partition/reference/period_plans.h"
#include "tests/support/tier.h"

namespace rannc::partition {
namespace {

using testing::random_chain;
using Allocations = PeriodProblem::Allocations;
using Peak = PeriodProblem::Peak;

ExactPeriod exact(PeriodProblem problem, Allocations allocations = Allocations::kAny, Peak peak = Peak::kOfLayers) {
  problem.allocations = allocations;
  problem.peak = peak;
  return exact_period(problem).value();
}

/// A solution unrolled over many periods, checked by the definitions of 3.1 and 3.2.
class Unrolled {
 public:
  Unrolled(const PeriodProblem& problem, const ExactPeriod& found)
      : problem_(problem), found_(found), layers_(static_cast<uint32_t>(problem.forward.size())) {
    for (const PatternPass& pass : found.pattern) {
      const uint32_t length = (pass.backward ? problem.backward : problem.forward)[pass.layer];
      for (uint64_t n = 0; n < kPeriods; ++n) {
        const uint64_t start = pass.start + n * found.time, batch = pass.batch + n * found.batches;
        runs_[{pass.backward ? 2 * layers_ - 1 - pass.layer : pass.layer, batch}] = {start, start + length};
      }
    }
  }

  void verify() const {
    ASSERT_EQ(runs_.size(), 2 * layers_ * found_.batches * kPeriods) << "k passes of each kind in a period";
    verify_order();
    verify_devices();
    verify_memory();
  }

 private:
  static constexpr uint64_t kPeriods = 48;
  static constexpr uint64_t kSteady = 16;  ///< periods after which every pass of the pattern has ended once
  struct Run {
    uint64_t start = 0, end = 0;
  };

  uint32_t device_of(uint32_t pass) const { return found_.device_of[pass < layers_ ? pass : 2 * layers_ - 1 - pass]; }

  /// The passes of a batch follow each other.
  void verify_order() const {
    for (const auto& [key, run] : runs_) {
      const auto before = key.first > 0 ? runs_.find({key.first - 1, key.second}) : runs_.end();
      if (before == runs_.end()) continue;
      EXPECT_GE(run.start, before->second.end) << "pass " << key.first;
    }
  }

  /// A device runs one pass at a time.
  void verify_devices() const {
    std::vector<std::vector<Run>> of_device(problem_.devices);
    for (const auto& [key, run] : runs_) of_device[device_of(key.first)].push_back(run);
    for (auto& all : of_device) {
      std::sort(all.begin(), all.end(), [](const Run& a, const Run& b) { return a.start < b.start; });
      for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i].start, all[i - 1].end);
    }
  }

  /// Batches between the start of F and the end of B, for a time in the steady part. Those of earlier periods, which
  /// are not in the table, are in both numbers.
  uint64_t held(uint32_t layer, uint64_t time) const {
    uint64_t forward = 0, backward = 0;
    for (const PatternPass& pass : found_.pattern) {
      if (pass.layer != layer) continue;
      const uint64_t end = pass.start + (pass.backward ? problem_.backward[layer] : 0);
      if (end > time) continue;
      uint64_t& last = pass.backward ? backward : forward;
      last = std::max(last, pass.batch + (time - end) / found_.time * found_.batches + 1);
    }
    return forward - backward;
  }

  void verify_memory() const {
    std::vector<uint64_t> of_layers(problem_.devices, 0), at_once(problem_.devices, 0);
    std::vector<uint64_t> peaks(layers_, 0);
    for (uint64_t time = kSteady * found_.time; time < (kSteady + 1) * found_.time; ++time) {
      std::vector<uint64_t> bytes(problem_.devices, 0);
      for (uint32_t l = 0; l < layers_; ++l) {
        peaks[l] = std::max(peaks[l], held(l, time));
        bytes[found_.device_of[l]] += problem_.weights[l] + held(l, time) * problem_.activations[l];
      }
      for (uint32_t d = 0; d < problem_.devices; ++d) at_once[d] = std::max(at_once[d], bytes[d]);
    }
    for (uint32_t l = 0; l < layers_; ++l)
      of_layers[found_.device_of[l]] += problem_.weights[l] + peaks[l] * problem_.activations[l];
    const auto& used = problem_.peak == Peak::kOfLayers ? of_layers : at_once;
    for (uint32_t d = 0; d < problem_.devices; ++d) EXPECT_LE(used[d], problem_.memory) << "device " << d;
  }

  const PeriodProblem& problem_;
  const ExactPeriod& found_;
  const uint32_t layers_;
  std::map<std::pair<uint32_t, uint64_t>, Run> runs_;  // by pass, counted along a batch, and batch
};

/// Theorem 4: weights (1, 1, 2, … k) and k+1 units of memory leave k activations to the first of k+1 equal layers.
TEST(ExactPeriod, KnowsTheoremFour) {
  for (uint32_t k = 1; k <= 3; ++k) {
    PeriodProblem chain;
    for (uint32_t l = 0; l <= k; ++l) {
      chain.weights.push_back(std::max(1u, l));
      for (auto* numbers : {&chain.forward, &chain.backward, &chain.activations}) numbers->push_back(1);
    }
    chain.devices = chain.memory = k + 1;
    const ExactPeriod found = exact(chain);
    EXPECT_DOUBLE_EQ(found.normalized(), 2 * (1 + 1.0 / k)) << k;
    EXPECT_EQ(found.batches % k, 0U) << "no j-periodic schedule with j < k is as fast";
    Unrolled(chain, found).verify();
  }
}

/// Section 6.1: loads 1, 2, 1 on two devices (here 2, 4, 2, since passes take whole times). Lemma 2: weights 1, 2, 1 in
/// memory 2 fit no contiguous allocation.
TEST(ExactPeriod, KnowsWhatContiguousAllocationsMiss) {
  PeriodProblem chain{{1, 2, 1}, {1, 2, 1}, {0, 0, 0}, {1, 1, 1}, 2, 10};
  EXPECT_DOUBLE_EQ(exact(chain).normalized(), 4);
  EXPECT_DOUBLE_EQ(exact(chain, Allocations::kContiguous).normalized(), 6);
  chain = {{1, 1, 1}, {1, 1, 1}, {1, 2, 1}, {0, 0, 0}, 2, 2};
  EXPECT_FALSE(exact(chain, Allocations::kContiguous).exists());
  EXPECT_DOUBLE_EQ(exact(chain).normalized(), 4);
  EXPECT_EQ(exact(chain).device_of, (std::vector<uint32_t>{0, 1, 0}));
}

TEST(ExactPeriod, StopsAtItsLimitOfStates) {
  const PeriodProblem chain{{1, 2, 1}, {1, 2, 1}, {0, 0, 0}, {1, 1, 1}, 2, 10};
  EXPECT_FALSE(exact_period(chain, 20).has_value());
}

/// A ring of two cycles: 5/2 and 7/3.
TEST(LeastRatioCycle, ComparesByRatioNotByTime) {
  const RatioGraph graph{{0, 2, 3, 4}, {{1, 2, 1}, {2, 4, 2}, {0, 3, 1}, {0, 3, 1}}};
  const RatioCycle cycle = least_ratio_cycle(graph);
  EXPECT_EQ(cycle.time, 7U);
  EXPECT_EQ(cycle.batches, 3U);
}

TEST(ExactPeriod, SolutionsHoldByTheDefinitions) {
  uint32_t several = 0, apart = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PeriodProblem chain = random_chain(seed, 5);
    for (const Peak peak : {Peak::kOfLayers, Peak::kOfDevice}) {
      chain.peak = peak;
      const ExactPeriod found = exact(chain, Allocations::kAny, peak);
      if (!found.exists()) continue;
      Unrolled(chain, found).verify();
      several += found.batches > 1;
      const ExactPeriod contiguous = exact(chain, Allocations::kContiguous, peak);
      if (contiguous.exists()) {
        EXPECT_GE(contiguous.normalized(), found.normalized());
      }
      apart += !contiguous.exists() || contiguous.normalized() > found.normalized();
    }
    const ExactPeriod of_layers = exact(chain, Allocations::kAny, Peak::kOfLayers);
    if (of_layers.exists()) {
      EXPECT_LE(exact(chain, Allocations::kAny, Peak::kOfDevice).normalized(), of_layers.normalized());
    }
  }
  EXPECT_GT(several, 5u);
  EXPECT_GT(apart, 5u);
}

/// The least makespan of `batches` batches over all allocations, by the oracle of row orders, which shares no code.
double least_makespan(const PeriodProblem& chain, uint32_t batches) {
  const auto layers = static_cast<uint32_t>(chain.forward.size());
  double least = found::kNever;
  std::vector<uint32_t> device_of(layers, 0);
  const auto place = [&](const auto& self, uint32_t layer) -> void {
    if (layer < layers) {
      for (device_of[layer] = 0; device_of[layer] < chain.devices; ++device_of[layer]) self(self, layer + 1);
      return;
    }
    ir::PipelineShape shape = ir::chain_shape(layers, batches);
    shape.devices = chain.devices;
    shape.memory_bytes.assign(chain.devices, chain.memory);
    ScheduleCosts costs;
    for (uint32_t l = 0; l < layers; ++l) {
      shape.stages[l].devices = {DeviceId(device_of[l])};
      shape.stages[l].fixed_bytes = chain.weights[l];
      shape.stages[l].saved_bytes = chain.activations[l];
      costs.compute.push_back({{double(chain.forward[l]), double(chain.backward[l]), 0, 0}});
    }
    const auto rows = found::make_row_problem(shape, costs, found::BackwardParts::kWhole, {});
    least = std::min(least, exact_row_makespan(rows, least).value());
  };
  place(place, 0);
  return least;
}

/// Any schedule of m batches, repeated, is m-periodic: none is shorter than m least periods. Without the fill and
/// drain of one more batch the bound is nearly met.
TEST(ExactPeriod, BoundsTheMakespanOfAnyRows) {
  uint32_t feasible = 0;
  for (uint64_t seed = 0; seed < (::rannc::testing::tests_everything() ? 120 : 30); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PeriodProblem chain = random_chain(seed, 3);
    const ExactPeriod found = exact(chain, Allocations::kAny, Peak::kOfDevice);
    const double three = least_makespan(chain, 3);
    ASSERT_EQ(found.exists(), three != found::kNever);
    if (!found.exists()) continue;
    ++feasible;
    const double latency = std::accumulate(chain.forward.begin(), chain.forward.end(), 0.0) +
                           std::accumulate(chain.backward.begin(), chain.backward.end(), 0.0);
    EXPECT_GE(three, 3 * found.normalized() - 1e-9);
    EXPECT_LE(three, 3 * found.normalized() + latency + 1e-9);
  }
  EXPECT_GT(feasible, 20u);
}

struct Tally {
  uint32_t planned = 0, optimal = 0, unplanned = 0;
  double sum = 0, worst = 0;
};

void compare(uint64_t seed, const std::vector<std::string>& schedules, AutoOptions::Lean lean, Tally& tally) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const PeriodProblem chain = random_chain(seed, ::rannc::testing::tests_everything() ? 8 : 6);
  const ExactPeriod best = exact(chain, Allocations::kAny, Peak::kOfDevice);
  const auto ours = testing::planned_period(chain, schedules, lean);
  if (!ours) {
    tally.unplanned += best.exists();
    return;
  }
  ASSERT_TRUE(best.exists()) << ours->plan.schedule;
  ASSERT_GE(ours->per_batch, best.normalized() * (1 - 1e-9)) << ours->plan.schedule;
  ASSERT_GE(ours->period, best.normalized() * (1 - 1e-9)) << ours->plan.schedule;
  const double ratio = ours->period / best.normalized();
  ++tally.planned;
  tally.optimal += ratio < 1 + 1e-9;
  tally.sum += ratio;
  tally.worst = std::max(tally.worst, ratio);
}

Tally tally_of(const std::string& name, const std::vector<std::string>& schedules,
               AutoOptions::Lean lean = AutoOptions::Lean::kIfNothingFits) {
  const uint64_t count = ::rannc::testing::tests_everything() ? 300 : 80;
  Tally tally;
  for (uint64_t seed = 0; seed < count && !::testing::Test::HasFatalFailure(); ++seed)
    compare(seed, schedules, lean, tally);
  fmt::print("{}: {} planned, {} optimal, mean ratio {:.3f}, worst {:.3f}, {} without a plan where one exists\n", name,
             tally.planned, tally.optimal, tally.sum / tally.planned, tally.worst, tally.unplanned);
  EXPECT_GT(tally.optimal, tally.planned / 3);
  return tally;
}

/// Prints how far our plans are. Memory counts as what a device holds at once: the paper's sum of the layers' own peaks
/// forbids schedules that fit.
TEST(ExactPeriod, NoPlanIsBetter) {
  for (const auto& [name, schedules] : testing::period_planners()) {
    const Tally tally = tally_of(name, schedules);
    EXPECT_GT(tally.planned, tally.unplanned);
    if (schedules.empty()) {
      EXPECT_EQ(tally.unplanned, 0u) << name;
    }
  }
}

/// Planner `auto` has a plan where any schedule has one, by the schedules that hold least.
TEST(ExactPeriod, LeanSchedulesReachWhatOthersDoNot) {
  const Tally first = tally_of("auto without lean schedules", {}, AutoOptions::Lean::kNever);
  EXPECT_GT(first.unplanned, first.planned / 2) << "the chains are not tight";
}

}  // namespace
}  // namespace rannc::partition
