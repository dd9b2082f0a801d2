// Wraps the released program in the planner interface.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/papers/dapple_released.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

/// Limit of cuts times pairs of devices in the two-stage search.
constexpr double kMostPairs = 2e7;
constexpr const char* kDataParallel = "data parallel";

class DappleReleasedPlanner final : public StagePlanner {
 public:
  explicit DappleReleasedPlanner(std::optional<ReleasedLinks> links) : links_(links) {}
  std::string name() const override { return "dapple-released"; }

 private:
  StageOutcome search(const StageProblem& given, std::stop_token stop) const override {
    StageProblem problem = given;
    problem.overlap_sums = false;  // as in DAPPLE's formulas
    const double devices = problem.cluster.size();
    if (problem.blocks * devices * devices > kMostPairs) {
      return Infeasible{fmt::format("{} blocks on {} devices are too many for the released search", problem.blocks,
                                    problem.cluster.size()),
                        0, "planner rannc or auto"};
    }
    PlanJudge judge(problem);
    const std::vector<uint64_t> counts = micro_batch_candidates(problem);
    const CutStates states = chain_states(problem, problem.mini_batch);
    std::map<std::vector<ReleasedStage>, std::optional<StagePlan>, Less> timed;
    std::optional<StagePlan> best;
    std::string why = "no plan satisfies the constraints", note;
    for (const uint64_t count : counts) {
      if (best && stop.stop_requested()) break;
      // Considers the best structure that can run, and data parallelism: which of them wins depends on a memory
      // estimate.
      bool hybrid = false;
      for (const ReleasedPlan& choice : choices(problem, states, count)) {
        const bool parallel = choice.kind == kDataParallel;
        if (hybrid && !parallel) continue;
        const auto [entry, fresh] = timed.try_emplace(choice.stages);
        if (fresh) entry->second = fastest(problem, choice, counts, judge, why);
        if (!entry->second) continue;
        hybrid = hybrid || !parallel;
        if (best && !better(*entry->second, *best)) continue;
        best = entry->second;
        note = fmt::format("speedup {:.3f} by the released program's estimate ({})", choice.speedup, choice.kind);
      }
    }
    if (!best) return Infeasible{"no plan of the released program fits: " + why, 0, "planner rannc or auto"};
    best->bottleneck = bottleneck_of(*best);
    best->notes.push_back(note);
    return *best;
  }

  struct Less {
    bool operator()(const std::vector<ReleasedStage>& a, const std::vector<ReleasedStage>& b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return std::tie(x.from, x.to, x.devices) < std::tie(y.from, y.to, y.devices);
      });
    }
  };

  /// Returns the program's plans for micro-batches of that count, best first, including overlapped data parallelism.
  std::vector<ReleasedPlan> choices(const StageProblem& problem, const CutStates& states, uint64_t count) const {
    ReleasedOptions options;
    for (const ClusterNode& node : problem.cluster.nodes) {
      if (!node.devices.empty()) options.machines.push_back(static_cast<uint32_t>(node.devices.size()));
    }
    const double between = problem.cluster.between.bytes_per_second,
                 inside = problem.cluster.nodes.front().inside.bytes_per_second;
    options.links = links_.value_or(ReleasedLinks{between, between, inside});
    options.profile_batch = options.mini_batch = problem.mini_batch;
    options.micro_batch = problem.mini_batch / count;
    std::vector<ReleasedPlan> plans = released_plans(states, options);
    ReleasedMemory memory;
    memory.device_bytes = memory_of(problem, DeviceId(0));
    memory.parameter_copies = 2 + problem.optimizer_factor;
    const auto& stashed = problem.stashed_bytes_per_sample;
    memory.activation_per_sample = std::max(1.0, std::accumulate(stashed.begin(), stashed.end(), 0.0));
    std::vector<uint32_t> all(problem.cluster.size());
    std::iota(all.begin(), all.end(), 0);
    ReleasedPlan parallel{kDataParallel,
                          {{0, states.size(), std::move(all)}},
                          count,
                          released_data_parallel_overlapped(states, options, memory)};
    const auto place = std::find_if(plans.begin(), plans.end(),
                                    [&](const ReleasedPlan& plan) { return plan.speedup < parallel.speedup; });
    plans.insert(place, std::move(parallel));
    return plans;
  }

  /// Returns the structure with the micro-batch count and warm-up policy that are best in simulation.
  static std::optional<StagePlan> fastest(const StageProblem& problem, const ReleasedPlan& choice,
                                          const std::vector<uint64_t>& counts, PlanJudge& judge, std::string& why) {
    StagePlan plan;
    for (const ReleasedStage& from : choice.stages) {
      PlannedStage& stage = plan.stages.emplace_back();
      stage.first = from.from;
      stage.end = from.to;
      for (const uint32_t device : from.devices) stage.devices.push_back(DeviceId(device));
      stage.recompute = problem.recompute == RecomputeRule::kAlways;
    }
    if (!keeps_constraints(problem, plan)) return std::nullopt;
    std::optional<StagePlan> best;
    for (const uint64_t count : counts) {
      for (const char* policy : {"1f1b", "dapple-b"}) {
        plan.micro_batches = count;
        plan.schedule = policy;
        JudgedPlan judged = judge.judge(plan);
        if (!judged) why = judged.why();
        if (judged && (!best || better(*judged, *best))) best = *std::move(judged);
      }
    }
    return best;
  }

  std::optional<ReleasedLinks> links_;
};

}  // namespace

std::unique_ptr<StagePlanner> dapple_released_planner(std::optional<ReleasedLinks> links) {
  return std::make_unique<DappleReleasedPlanner>(links);
}

}  // namespace rannc::partition
