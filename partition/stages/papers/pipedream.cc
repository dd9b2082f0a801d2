// Implements the DP of PipeDream's released optimizer, level by level.
//
// A[i][j][m]: least bottleneck for the states after i up to j on m machines. One stage on m machines takes
//   (compute + 4 (m - 1) P / (bandwidth m) / inner) / m
// where `inner` is the machine count of the level below. A split at k assigns the states after k to a last stage on m'
// machines (its synchronisation is not divided by `inner`) and pays both transfers, 2 bytes / (bandwidth m').
#include "partition/stages/papers/pipedream.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

struct Choice {
  uint32_t split = UINT32_MAX;  ///< last state before the last stage; UINT32_MAX: one stage
  uint32_t machines = 1;        ///< of the last stage
};

/// One level for every start i (0: the start; else after state i - 1).
class Level {
 public:
  Level(const CutStates& states, PipedreamLevel level, uint32_t inner, const PipedreamOptions& options)
      : states_(states),
        level_(level),
        inner_(inner),
        options_(options),
        n_(states.size()),
        best_(n_ + 1),
        choice_(n_ + 1) {}

  /// Fills A[i]; `time(i, j)` is the compute time of the states after i up to j on one machine.
  template <class Time>
  void fill(uint32_t i, const Time& time) {
    best_[i].assign(static_cast<size_t>(n_) * level_.machines, kInfinity);
    choice_[i].resize(best_[i].size());
    for (uint32_t j = 0; j < n_; ++j) {
      if (!inside(i, j)) continue;
      fill_one_stage(i, j, time(i, j));
      fill_splits(i, j, time);
    }
  }

  double at(uint32_t i, uint32_t j, uint32_t m) const { return best_[i][cell(j, m)]; }
  bool inside(uint32_t i, uint32_t j) const {
    return i == 0 || std::binary_search(states_.before[j].begin(), states_.before[j].end(), i - 1);
  }

  std::vector<PipedreamStage> trace(uint32_t i, uint32_t j, uint32_t m) const {
    const Choice& choice = choice_[i][cell(j, m)];
    if (choice.split == UINT32_MAX) return {{i, j + 1, choice.machines, {}}};
    std::vector<PipedreamStage> stages = trace(i, choice.split, m - choice.machines);
    stages.push_back({choice.split + 1, j + 1, choice.machines, {}});
    return stages;
  }

 private:
  size_t cell(uint32_t j, uint32_t m) const { return static_cast<size_t>(j) * level_.machines + m - 1; }

  double synchronisation(uint32_t i, uint32_t j, uint32_t m) const {
    const double bytes = states_.parameter_bytes[j] - (i == 0 ? 0 : states_.parameter_bytes[i - 1]);
    return 4.0 * (m - 1) * bytes / (level_.bytes_per_second * m);
  }

  void fill_one_stage(uint32_t i, uint32_t j, double compute) {
    const uint32_t most = options_.straight ? 1 : level_.machines;
    for (uint32_t m = 1; m <= most; ++m) {
      best_[i][cell(j, m)] = (compute + synchronisation(i, j, m) / inner_) / m;
      choice_[i][cell(j, m)] = {UINT32_MAX, m};
    }
  }

  template <class Time>
  void fill_splits(uint32_t i, uint32_t j, const Time& time) {
    const double bandwidth = level_.bytes_per_second;
    const double out = options_.transfers && j + 1 < n_ ? 2 * states_.output_bytes[j] / bandwidth : 0;
    const uint32_t most = options_.straight ? 1 : level_.machines - 1;
    for (const uint32_t k : states_.before[j]) {
      if (!inside(i, k)) continue;
      const double compute = time(k + 1, j);
      const double transfer = std::max(options_.transfers ? 2 * states_.output_bytes[k] / bandwidth : 0, out);
      for (uint32_t last = 1; last <= most; ++last) {
        const double alone = std::max((compute + synchronisation(k + 1, j, last)) / last, transfer / last);
        for (uint32_t m = last + 1; m <= level_.machines; ++m) {
          const double bottleneck = std::max(best_[i][cell(k, m - last)], alone);
          if (bottleneck >= best_[i][cell(j, m)]) continue;
          best_[i][cell(j, m)] = bottleneck;
          choice_[i][cell(j, m)] = {k, last};
        }
      }
    }
  }

  const CutStates& states_;
  PipedreamLevel level_;
  double inner_;
  PipedreamOptions options_;
  uint32_t n_;
  std::vector<std::vector<double>> best_;  ///< [start][state * machines + m - 1]
  std::vector<std::vector<Choice>> choice_;
};

void trace_inside(const std::vector<Level>& levels, const std::vector<PipedreamLevel>& sizes, size_t depth,
                  std::vector<PipedreamStage>& stages) {
  if (depth == 0) return;
  for (PipedreamStage& stage : stages) {
    stage.inner = levels[depth - 1].trace(stage.from, stage.to - 1, sizes[depth - 1].machines);
    trace_inside(levels, sizes, depth - 1, stage.inner);
  }
}

}  // namespace

PipedreamPlan pipedream_dp(const CutStates& states, const std::vector<PipedreamLevel>& levels,
                           const PipedreamOptions& options) {
  RANNC_CHECK(!levels.empty() && states.size() > 0);
  const uint32_t n = states.size();
  std::vector<Level> filled;
  filled.reserve(levels.size());
  uint32_t inner = 1;
  for (size_t l = 0; l < levels.size(); ++l) {
    filled.emplace_back(states, levels[l], inner, options);
    const Level* below = l == 0 ? nullptr : &filled[l - 1];
    const uint32_t below_machines = l == 0 ? 1 : levels[l - 1].machines;
    const auto time = [&](uint32_t i, uint32_t j) {
      if (below != nullptr) return below->at(i, j, below_machines);
      return states.compute_s[j] - (i == 0 ? 0 : states.compute_s[i - 1]);
    };
    const uint32_t starts = l + 1 == levels.size() ? 1 : n + 1;
    for (uint32_t i = 0; i < starts; ++i) filled[l].fill(i, time);
    inner = levels[l].machines;
  }
  PipedreamPlan plan;
  plan.bottleneck_s = filled.back().at(0, n - 1, levels.back().machines);
  if (plan.bottleneck_s < kInfinity) {
    plan.stages = filled.back().trace(0, n - 1, levels.back().machines);
    trace_inside(filled, levels, levels.size() - 1, plan.stages);
  }
  return plan;
}

namespace {

class PipedreamPlanner final : public StagePlanner {
 public:
  std::string name() const override { return "pipedream"; }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token /*stop*/) const override {
    PlanJudge judge(problem);
    std::optional<StagePlan> best;
    std::string why = "no plan on all devices";
    const std::vector<PipedreamLevel> levels = levels_of(problem.cluster);
    if (levels.back().machines > 64 || problem.blocks > 400) {
      return Infeasible{"the hierarchical DP is cubic: it takes at most 400 blocks and 64 machines a level", 0,
                        "planner rannc or auto"};
    }
    for (const uint64_t micro_batches : micro_batch_candidates(problem)) {
      const uint64_t samples = (problem.mini_batch + micro_batches - 1) / micro_batches;
      const PipedreamPlan found = pipedream_dp(chain_states(problem, samples), levels);
      if (found.stages.empty()) continue;
      StagePlan plan = flatten(problem, found, levels, micro_batches);
      if (!keeps_constraints(problem, plan)) {
        why = "PipeDream does not support constraints, and its plan violates one";
        continue;
      }
      JudgedPlan judged = judge.judge(std::move(plan));
      if (!judged) why = judged.why();
      if (judged && (!best || judged->objective < best->objective)) best = *std::move(judged);
    }
    if (!best) return Infeasible{why, 0, "planner rannc or auto"};
    best->bottleneck = bottleneck_of(*best);
    return *best;
  }

  static std::vector<PipedreamLevel> levels_of(const Cluster& cluster) {
    const size_t nodes = cluster.nodes.size(), per_node = cluster.nodes.front().devices.size();
    const bool alike = std::all_of(cluster.nodes.begin(), cluster.nodes.end(),
                                   [&](const ClusterNode& node) { return node.devices.size() == per_node; });
    const double inside = cluster.nodes.front().inside.bytes_per_second;
    const double between = cluster.between.bytes_per_second;
    if (nodes == 1) return {{static_cast<uint32_t>(per_node), std::max(inside, 1.0)}};
    if (!alike || per_node == 1) return {{cluster.size(), between}};
    return {{static_cast<uint32_t>(per_node), inside}, {static_cast<uint32_t>(nodes), between}};
  }

  /// An outer stage on m machines repeats its inner plan on each of them.
  static StagePlan flatten(const StageProblem& problem, const PipedreamPlan& found,
                           const std::vector<PipedreamLevel>& levels, uint64_t micro_batches) {
    StagePlan plan;
    plan.micro_batches = micro_batches;
    plan.schedule = "1f1b";
    const uint32_t per_machine = levels.size() > 1 ? levels[0].machines : 1;
    uint32_t device = 0;
    for (const PipedreamStage& outer : found.stages) {
      std::vector<PipedreamStage> inner = outer.inner;
      if (inner.empty()) inner = {{outer.from, outer.to, 1, {}}};
      uint32_t offset = 0;
      for (const PipedreamStage& part : inner) {
        PlannedStage stage;
        stage.first = part.from;
        stage.end = part.to;
        stage.recompute = problem.recompute == RecomputeRule::kAlways;
        for (uint32_t machine = 0; machine < outer.replicas; ++machine) {
          for (uint32_t r = 0; r < part.replicas; ++r) {
            stage.devices.push_back(DeviceId(device + machine * per_machine + offset + r));
          }
        }
        offset += part.replicas;
        plan.stages.push_back(std::move(stage));
      }
      device += outer.replicas * per_machine;
    }
    return plan;
  }
};

}  // namespace

std::unique_ptr<StagePlanner> pipedream_planner() { return std::make_unique<PipedreamPlanner>(); }

}  // namespace rannc::partition
