// Implements the planner around the search: micro-batch counts, memory, simulation.
#include "partition/stages/papers/dapple.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/finalists.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/papers/dapple_search.h"

namespace rannc::partition {
namespace {

constexpr size_t kPicks = 6000;    ///< limit of device choices, over all sets
constexpr double kTrials = 1.5e7;  ///< limit of stages priced per micro-batch count, before pruning
constexpr double kLeastCuts = 12;

class DapplePlanner final : public StagePlanner {
 public:
  explicit DapplePlanner(DappleOptions options) : options_(options) {}
  std::string name() const override { return "dapple"; }

 private:
  StageOutcome search(const StageProblem& given, std::stop_token stop) const override {
    StageProblem problem = given;
    problem.in_flight = InFlight::kOneFOneB;
    problem.overlap_sums = false;  // as Formula 2 counts them
    PlanJudge judge(problem);
    const DeviceSetGraph graph(problem.cluster, kPicks);
    GroupLinks links(problem.cluster, graph);
    const double most = std::sqrt(kTrials / static_cast<double>(std::max<size_t>(1, graph.all_picks())));
    const DappleCuts cuts = dapple_cuts(problem, judge.ranges(), static_cast<size_t>(std::max(kLeastCuts, most)));
    Best best, by_formula;
    for (const uint64_t micro_batches : micro_batch_candidates(problem)) {
      if (best.plan && stop.stop_requested()) break;
      for (const bool recompute : {false, true}) {
        if (recompute ? problem.recompute == RecomputeRule::kNever : problem.recompute == RecomputeRule::kAlways)
          continue;
        DappleSearchOptions options;
        options.credit = options_.credit;
        options.recompute = recompute;
        const auto found = dapple_search(problem, judge.ranges(), graph, links, cuts.at, micro_batches, options);
        if (options_.choice == DappleChoice::kSimulated)
          choose(problem, found, judge, DappleChoice::kLatency, by_formula);
        if (choose(problem, found, judge, options_.choice, best)) break;
      }
    }
    if (by_formula.plan && best.plan && runs_faster(judge, *by_formula.plan, *best.plan)) best = std::move(by_formula);
    if (!best.plan)
      return Infeasible{"no plan of DAPPLE's fits: " + best.why, 0, "recompute, more devices, planner rannc or auto"};
    StagePlan& plan = *best.plan;
    plan.bottleneck = bottleneck_of(plan);
    plan.notes.push_back(fmt::format("pipeline latency L = {:.3f} ms by Formulas 1 and 2", best.latency / 1e6));
    if (!graph.all_counts()) plan.notes.push_back("not all device counts were tried: the cluster is large");
    if (cuts.excluded > 0)
      plan.notes.push_back(fmt::format("{} cuts were not tried because the chain is long", cuts.excluded));
    if (stop.stop_requested()) plan.notes.push_back("the search was interrupted: this is the best plan so far");
    return plan;
  }

  /// Simulates device by device, with separate ports for replicas and values, which the judge of whole stages ignores.
  static bool runs_faster(PlanJudge& judge, StagePlan a, StagePlan b) {
    if (!is_small(a) || !is_small(b)) return false;
    const JudgedPlan first = judge.judge_by_device(std::move(a));
    if (!first) return false;
    const JudgedPlan second = judge.judge_by_device(std::move(b));
    return second && better(*first, *second);
  }

  struct Best {
    std::optional<StagePlan> plan;
    double latency = 0;
    std::string why = "no plan satisfies the constraints and fits the memory";
  };

  /// Compares the plans of one micro-batch count with the best so far. Returns false if none of them can run.
  static bool choose(const StageProblem& problem, const std::multimap<double, StagePlan>& found, PlanJudge& judge,
                     DappleChoice choice, Best& best) {
    const bool by_latency = choice == DappleChoice::kLatency, by_step = problem.objective == Objective::kStepTime;
    bool any = false;
    for (const auto& [latency, candidate] : found) {
      // A plan whose L exceeds an already simulated time is not simulated; the time is rarely below L.
      if (!by_latency && by_step && best.plan && best.plan->step_ns <= latency) return true;
      if (by_latency && (any || (best.plan && best.latency <= latency))) break;
      std::optional<StagePlan> faster;
      for (const char* policy : {"1f1b", "dapple-b"}) {
        StagePlan plan = candidate;
        plan.schedule = policy;
        JudgedPlan judged = judge.judge(std::move(plan));
        if (!judged) best.why = judged.why();
        if (judged && (!faster || better(*judged, *faster))) faster = *std::move(judged);
      }
      if (!faster) continue;
      any = true;
      if (best.plan && !by_latency && !better(*faster, *best.plan)) continue;
      best.latency = latency;
      best.plan = std::move(faster);
    }
    return any;
  }

  DappleOptions options_;
};

}  // namespace

std::unique_ptr<StagePlanner> dapple_planner(DappleOptions options) { return std::make_unique<DapplePlanner>(options); }

}  // namespace rannc::partition
