#include "partition/stages/search/search_seeds.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "partition/stages/bounds/bounds.h"
#include "partition/stages/bounds/stage_floor.h"
#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/covers/threshold_search.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

constexpr uint64_t kSeedQueries = 16;  ///< of the exact DP, per start
constexpr uint32_t kEvenStages = 64;   ///< most stages of the starts that share devices equally
constexpr double kSeedSteps = 1e9;     ///< of all of them, a few ns each

/// Visits a plan, then the same with recompute in all stages if that may be chosen. Returns false to end the search.
bool visit_with_recompute(const StageProblem& problem, StagePlan plan,
                          const std::function<bool(const StagePlan&)>& visit) {
  if (!visit(plan)) return false;
  if (problem.recompute != RecomputeRule::kChoose) return true;
  for (PlannedStage& stage : plan.stages) stage.recompute = true;
  return visit(plan);
}

class Seeds {
 public:
  Seeds(const StageProblem& problem, const std::function<bool(const StagePlan&)>& visit)
      : problem_(problem), visit_(visit) {}

  /// Visits stages laid out consecutively. Returns false to end the search.
  bool sketch(const std::vector<StageOutline>& outline, uint64_t micro_batches) {
    StagePlan plan;
    plan.micro_batches = micro_batches;
    uint32_t device = 0;
    for (const StageOutline& from : outline) {
      PlannedStage stage;
      stage.first = from.first;
      stage.end = from.end;
      stage.recompute = problem_.recompute == RecomputeRule::kAlways;
      for (uint32_t r = 0; r < from.replicas; ++r) stage.devices.push_back(DeviceId(device++));
      plan.stages.push_back(std::move(stage));
    }
    if (device > problem_.cluster.size() || !keeps_constraints(problem_, plan)) return true;
    return visit_with_recompute(problem_, std::move(plan), visit_);
  }

  /// Visits the exact DP's solution under the first discipline that has one. Returns false to end the search.
  bool answer(const RangeCosts& ranges, uint64_t micro_batches, uint32_t stages) {
    if (!charge(stages)) return true;
    const InFlight other = problem_.in_flight == InFlight::kOne ? InFlight::kOne : InFlight::kAll;
    for (const InFlight discipline : {InFlight::kOneFOneB, other}) {
      StageProblem problem = problem_;
      problem.in_flight = discipline;
      // Links between nodes count as those inside: the simulation and the moves correct the error.
      const auto finder = uniform_cover(problem, ranges, micro_batches);
      const auto found = minimise_fill_drain({finder.get()}, {stages, stages}, {kSeedQueries});
      if (found) return visit_(laid_out(found->cover, micro_batches));
    }
    return true;
  }

 private:
  /// Whether the budget allows one more solution of the exact DP. Steps are counted, not seconds.
  bool charge(uint32_t stages) {
    steps_ -= kSeedQueries * (1 + stages / 16.0) * problem_.blocks * problem_.blocks;
    return steps_ >= 0;
  }

  static StagePlan laid_out(const Cover& cover, uint64_t micro_batches) {
    StagePlan plan;
    plan.micro_batches = micro_batches;
    for (const CoveredStage& covered : cover.stages) {
      PlannedStage stage;
      stage.first = covered.first;
      stage.end = covered.end;
      stage.recompute = covered.recompute;
      for (uint32_t d = covered.from; d < covered.to; ++d) stage.devices.push_back(DeviceId(d));
      plan.stages.push_back(std::move(stage));
    }
    return plan;
  }

  const StageProblem& problem_;
  const std::function<bool(const StagePlan&)>& visit_;
  double steps_ = kSeedSteps;
};

/// Devices of each rank: those that the problem demands of stages that share devices, otherwise equal parts of all
/// devices. The first ranks get one more if needed. Empty if the demand exceeds the devices.
std::vector<uint32_t> replicas_of_ranks(const StageProblem& problem, uint32_t ranks, uint32_t stages,
                                        uint64_t micro_batches) {
  const std::vector<uint32_t>& wanted = problem.constraints.replicas;
  const uint32_t devices = problem.cluster.size();
  if (wanted.size() == stages && ranks < stages) {
    std::vector<uint32_t> replicas(wanted.begin(), wanted.begin() + ranks);
    if (std::accumulate(replicas.begin(), replicas.end(), uint64_t{0}) > devices) replicas.clear();
    return replicas;
  }
  const uint64_t samples = (problem.mini_batch + micro_batches - 1) / micro_batches;
  std::vector<uint32_t> replicas;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    replicas.push_back(static_cast<uint32_t>(std::min<uint64_t>(devices / ranks + (rank < devices % ranks), samples)));
  }
  return replicas;
}

/// Visits plans whose ranks share the devices equally, or as demanded. Returns false to end the search. With any
/// allocation, one stage is missing from a loop, unless another number is demanded.
bool each_even(const StageProblem& problem, Rebalancer& rebalancer, const Arrangement& arrangement,
               uint64_t micro_batches, const std::function<bool(const StagePlan&)>& visit) {
  const StageCount count = stage_count(problem, arrangement);
  if (count.most < count.least) return true;
  const bool any = arrangement.layout == StageLayout::kAny;
  const uint32_t chunks = arrangement.chunks, most = std::min((count.most + any) / chunks, problem.cluster.size());
  // One stage on all devices is a seed of others. Several stages on one device are of use if there is only one.
  const uint32_t useful = chunks == 1 ? 2 : std::clamp(most, 1u, 2u);
  for (uint32_t ranks = std::max(useful, count.least / chunks); ranks <= std::min(most, kEvenStages);
       ranks += std::max(1u, ranks / 3)) {
    const uint32_t stages = std::clamp(ranks * chunks - any, count.least, count.most);
    const std::vector<uint32_t> replicas = replicas_of_ranks(problem, ranks, stages, micro_batches);
    if (replicas.empty() || ranks > stages || stages > ranks * chunks) continue;
    const StagePlan plan = rebalancer.arranged(arrangement.layout, stages, replicas, micro_batches);
    if (keeps_constraints(problem, plan) && !visit_with_recompute(problem, plan, visit)) return false;
  }
  return true;
}

}  // namespace

bool each_even_seed(const StageProblem& problem, Rebalancer& rebalancer, const std::vector<Arrangement>& all,
                    const std::vector<uint64_t>& micro_batches, const std::function<bool(const StagePlan&)>& visit) {
  for (const Arrangement& arrangement : all) {
    for (const uint64_t parts : micro_batches) {
      if (!each_even(problem, rebalancer, arrangement, parts, visit)) return false;
    }
  }
  return true;
}

void each_seed(const StageProblem& problem, Rebalancer& rebalancer, const std::vector<Arrangement>& all,
               const std::vector<uint64_t>& micro_batches, const std::function<bool(const StagePlan&)>& visit) {
  if (!each_even_seed(problem, rebalancer, all, micro_batches, visit)) return;
  StageProblem without_values = problem;
  without_values.values.clear();
  const RangeCosts silent(without_values);
  if (std::find(all.begin(), all.end(), Arrangement{}) == all.end()) return;
  const StageCount count = stage_count(problem);
  const RangeCosts& ranges = rebalancer.ranges();
  Seeds seeds(problem, visit);
  for (const uint64_t parts : micro_batches) {
    for (const auto& outline : promising_stages(problem, ranges, parts)) {
      if (!seeds.sketch(outline, parts)) return;
    }
    for (uint32_t stages = count.least; stages <= count.most; stages += std::max(1u, stages / 2)) {
      if (!seeds.answer(ranges, parts, stages) || !seeds.answer(silent, parts, stages)) return;
    }
  }
}

}  // namespace rannc::partition
