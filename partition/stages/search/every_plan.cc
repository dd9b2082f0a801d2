#include "partition/stages/search/every_plan.h"

#include <algorithm>

#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

class Enumeration {
 public:
  Enumeration(const StageProblem& problem, const Arrangement& arrangement,
              const std::function<void(const StagePlan&)>& visit)
      : problem_(problem),
        arrangement_(arrangement),
        count_(stage_count(problem, arrangement)),
        visit_(visit),
        choices_(recompute_choices(problem.recompute)) {}

  void run() {
    for (const uint64_t micro_batches : micro_batch_candidates(problem_)) {
      plan_.micro_batches = micro_batches;
      samples_ = (problem_.mini_batch + micro_batches - 1) / micro_batches;
      if (in_ranks()) {
        for (stages_ = count_.least; stages_ <= count_.most; stages_ += arrangement_.chunks) extend(0, 0);
      } else {
        extend(0, 0);
      }
    }
  }

 private:
  /// Whether the number of stages determines their ranks.
  bool in_ranks() const { return arrangement_.layout == StageLayout::kV || arrangement_.layout == StageLayout::kLoop; }

  void extend(uint32_t first, uint32_t device) {
    const size_t most = in_ranks() ? stages_ : count_.most;
    if (first == problem_.blocks) {
      if ((!in_ranks() || plan_.stages.size() == most) && keeps_constraints(problem_, plan_)) visit_(plan_);
      return;
    }
    if (plan_.stages.size() == most) return;
    for (uint32_t end = first + 1; end <= problem_.blocks; ++end) {
      share(first, end, device);
      if (in_ranks() && plan_.stages.size() >= stages_ / arrangement_.chunks) continue;
      std::vector<DeviceId> devices;
      for (uint32_t to = device; to < problem_.cluster.size() && devices.size() < samples_; ++to) {
        devices.push_back(DeviceId(to));
        add({first, end, devices}, to + 1);
      }
    }
  }

  /// Adds the stage on devices of earlier stages.
  void share(uint32_t first, uint32_t end, uint32_t device) {
    const auto s = static_cast<uint32_t>(plan_.stages.size());
    if (in_ranks()) {
      const uint32_t ranks = stages_ / arrangement_.chunks;
      if (s < ranks) return;
      add({first, end, plan_.stages[rank_of(arrangement_.layout, ranks, s)].devices}, device);
    } else if (arrangement_.layout == StageLayout::kAny) {
      for (uint32_t other = 0; other < s; ++other) {
        const std::vector<DeviceId> devices = plan_.stages[other].devices;
        const auto holds = [&](const PlannedStage& stage) { return stage.devices == devices; };
        const auto before = plan_.stages.begin() + other;
        if (std::find_if(plan_.stages.begin(), before, holds) != before) continue;  // tried with an earlier stage
        if (std::count_if(before, plan_.stages.end(), holds) == arrangement_.chunks) continue;
        add({first, end, devices}, device);
      }
    }
  }

  void add(PlannedStage stage, uint32_t next_device) {
    for (const bool recompute : choices_) {
      stage.recompute = recompute;
      plan_.stages.push_back(stage);
      extend(stage.end, next_device);
      plan_.stages.pop_back();
    }
  }

  const StageProblem& problem_;
  const Arrangement arrangement_;
  StageCount count_;
  const std::function<void(const StagePlan&)>& visit_;
  std::vector<bool> choices_;
  uint64_t samples_ = 1;
  uint32_t stages_ = 0;  ///< of the plans in a layout of ranks
  StagePlan plan_;
};

double choose(uint64_t of, uint64_t count) {
  double ways = count > of ? 0 : 1;
  for (uint64_t i = 0; i < std::min(count, of); ++i)
    ways = ways * static_cast<double>(of - i) / static_cast<double>(i + 1);
  return ways;
}

/// Numbers of ways to divide `stages` into groups of at most `chunks`, by number of groups.
std::vector<double> groupings(uint32_t stages, const Arrangement& arrangement) {
  std::vector<double> ways(stages + 1, 0);
  if (arrangement.layout != StageLayout::kAny) {
    ways[stages / arrangement.chunks] = 1;
    return ways;
  }
  // table[n][g]: the first of n stages shares its group with any i others.
  std::vector<std::vector<double>> table(stages + 1, ways);
  table[0][0] = 1;
  for (uint32_t n = 1; n <= stages; ++n) {
    for (uint32_t i = 0; i < std::min(n, arrangement.chunks); ++i) {
      for (uint32_t g = 1; g <= n; ++g) table[n][g] += choose(n - 1, i) * table[n - 1 - i][g - 1];
    }
  }
  return table[stages];
}

/// Ways to place that many stages: their groups, and 1 or more consecutive devices for each group.
double placements(const StageProblem& problem, const Arrangement& arrangement, uint32_t stages) {
  const std::vector<double> ways = groupings(stages, arrangement);
  double total = 0;
  for (uint32_t g = 1; g <= std::min(stages, problem.cluster.size()); ++g) {
    if (ways[g] > 0) total += ways[g] * choose(problem.cluster.size(), g);
  }
  return total;
}

}  // namespace

uint64_t count_plans(const StageProblem& problem, const Arrangement& arrangement, uint64_t limit) {
  const double choices = static_cast<double>(recompute_choices(problem.recompute).size());
  const double counts = static_cast<double>(micro_batch_candidates(problem).size());
  const StageCount count = stage_count(problem, arrangement);
  const bool in_ranks = arrangement.layout == StageLayout::kV || arrangement.layout == StageLayout::kLoop;
  double total = 0, recompute = 1;
  for (uint32_t s = 1; s <= count.most; ++s) {
    recompute *= choices;
    if (s < count.least || (in_ranks && s % arrangement.chunks != 0)) continue;
    total += counts * choose(problem.blocks - 1, s - 1) * recompute * placements(problem, arrangement, s);
    if (total > static_cast<double>(limit)) return limit;
  }
  return static_cast<uint64_t>(total);
}

void every_plan(const StageProblem& problem, const Arrangement& arrangement,
                const std::function<void(const StagePlan&)>& visit) {
  Enumeration(problem, arrangement, visit).run();
}

}  // namespace rannc::partition
