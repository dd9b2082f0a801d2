/// Evaluates a stage plan: simulates one mini-batch and computes memory per device.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/schedule/schedule.h"
#include "partition/stages/bounds/bounds.h"
#include "partition/stages/pricing/stage_hulls.h"
#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

class RangeCosts;
struct ComputeTimes;
struct ScheduleSpec;
struct StageBytes;
struct SumCost;
struct TrainedPart;

/// Why a plan does not hold. Searches discard most reasons, so the text is made on request.
struct Refusal {
  enum class Reason : uint8_t {
    kSamples,  ///< a stage has more replicas than a micro-batch has samples
    kMemory,   ///< a stage needs more bytes than its devices have
    kTime,     ///< the step exceeds the time limit, ns
    kPeriod,   ///< the busiest device needs more than the requested period, ns
    kNoRows,   ///< a search found no rows that fit memory and repeat
    kBeaten    ///< the stages alone take as long as the plan to beat
  };
  Reason reason = Reason::kBeaten;
  size_t stage = 0;  ///< of kSamples and kMemory
  double found = 0, allowed = 0;
  std::string str() const;
};

/// A plan with its times, memory and objective, or the reason why it does not hold.
class JudgedPlan {
 public:
  JudgedPlan(StagePlan plan) : value_(std::move(plan)) {}
  JudgedPlan(Refusal refusal) : value_(refusal) {}
  explicit operator bool() const { return std::holds_alternative<StagePlan>(value_); }
  const StagePlan& operator*() const& { return std::get<StagePlan>(value_); }
  StagePlan&& operator*() && { return std::get<StagePlan>(std::move(value_)); }
  const StagePlan* operator->() const { return &std::get<StagePlan>(value_); }
  const Refusal& refusal() const { return std::get<Refusal>(value_); }
  /// The reason as text; empty if the plan holds.
  std::string why() const;

 private:
  std::variant<StagePlan, Refusal> value_;
};

/// Simulates plans of one problem. All planners are compared by it, so hybrid, straight and data-parallel plans compete
/// on equal terms. Keeps a reference to the problem. Not thread-safe.
///
/// Replicas are simulated as one device that takes as long as the slowest of them, and so are the stages that share
/// their devices. Messages wait for the
/// ports of their stages, one at a time in each direction. A message takes as long as the busiest port on its route; a
/// node has one port to the other nodes. Gradients are summed as the stage's last backward pass makes them final
/// (`pricing/stage_sums.h`), or after it without `PlanDemands::overlap_sums`. The optimizer step follows. Stages that
/// share devices step after the exposed parts of all their sums: each sum hides beside its own stage's backward pass.
///
/// A stage that recomputes repeats the least that its memory allows if the problem has rebuild hulls. Otherwise it
/// repeats its whole forward pass.
class PlanJudge {
 public:
  explicit PlanJudge(const StageProblem& problem);
  ~PlanJudge();

  /// Returns the plan with times, all-reduce and peak memory of its stages, `step_ns` and the problem's objective. Uses
  /// the plan's own schedule, which must suit its stages (`suits`); depths are added if it takes some and has none.
  /// Refuses a plan if a stage does not fit its devices, a replica would have no sample, or the step exceeds the time
  /// limit. If the objective is the step time, also refuses if the stages alone prove a step of `beat` or longer; such
  /// a plan is not simulated.
  JudgedPlan judge(StagePlan plan, double beat = kInfinity);

  /// Estimates the result of `judge` from the start of a long mini-batch and the steady rate after it. Exact for short
  /// mini-batches. Close if the slowest stage determines the rate early, too low if a backlog drains slowly.
  JudgedPlan estimate(StagePlan plan, double beat = kInfinity);

  /// Same as `judge`, for a plan that has been judged, but simulates every replica, value and port separately, as in
  /// the prediction of finished plans. `beat` is compared with the time of the computations alone.
  JudgedPlan judge_by_device(StagePlan plan, double beat = kInfinity);

  /// Searches rows for the stages of a plan (`schedule/found/`) with a budget of simulated actions. Returns the plan
  /// under schedule `found`, judged device by device, whether or not it is faster. The plan must have been judged.
  /// Refuses a plan for which a bound on all rows is `beat` or more.
  JudgedPlan find_rows(StagePlan plan, uint64_t actions, double beat = kInfinity);

  /// Returns the compute-only rows of a plan by place (`places_of`); an error if `judge` refuses the plan.
  Result<ir::Schedule> rows(StagePlan plan);

  /// Returns a lower bound on the objective of all plans of the problem, with the argument that proves it.
  Bound lower_bound(const BoundEffort& effort = {}) const;

  const RangeCosts& ranges() const { return *ranges_; }
  /// Cost of all judgements so far: half the number of individually simulated actions, plus the devices of every plan.
  uint64_t spent() const { return spent_; }
  /// Actions that `find_rows` has simulated.
  uint64_t row_actions() const { return row_actions_; }

 private:
  struct Sums {
    std::vector<std::vector<double>> forward, backward, weight;  ///< per kind, prefix sums over blocks
  };
  struct Run;

  const Sums& sums(uint64_t samples);
  /// Times of a stage on a kind of device: measured ones, or the sums of its blocks.
  ComputeTimes compute_times(const StagePlan& plan, size_t stage, uint32_t kind, uint64_t samples);
  std::optional<Refusal> price(StagePlan& plan, Run& run);
  /// Sums of a replicated stage whose passes have been priced; one without a mark if they may not run beside them.
  std::vector<SumCost> reductions(const StagePlan& plan, size_t stage, const TrainedPart& trained, const Run& run);
  /// Returns the least share of its forward pass that a recomputing stage repeats within `memory`. Replaces `bytes`,
  /// those of whole recompute, by what the stage then holds.
  /// Bytes of one replica of a stage. `more`: see `stage_bytes`.
  StageBytes bytes_of(const PlannedStage& stage, double samples, RecomputeRule rule, double more = 0) const;
  double least_repeated(const StagePlan& plan, size_t stage, double memory, double samples, StageBytes& bytes);
  /// The same for stages whose rows determine how many micro-batches they hold, together for those that share devices.
  /// Takes the steps of their hulls in descending order of time per byte. Sets `run.rows`.
  void repeat_least_by_rows(StagePlan& plan, Run& run);
  const std::vector<RebuildPoint>& rebuild_points(uint32_t a, uint32_t b);
  static std::vector<std::vector<StageId>> stages_by_place(const Run& run);
  /// Prices stages and splits the mini-batch. Each place is one device; messages are not added yet.
  std::optional<Refusal> lay_out(StagePlan& plan, Run& run);
  /// Lays out the plan with its messages.
  std::optional<Refusal> begin(StagePlan& plan, Run& run, double beat);
  /// Lays out the plan with a device for every replica, numbered as in `used`, and with their links.
  std::optional<Refusal> lay_out_by_device(StagePlan& plan, Run& run, double beat);
  /// Adds the memory of devices and stages to a plan that is laid out by device, with its own lowered rows.
  void add_memory(const StagePlan& plan, const ir::Schedule& own, Run& run) const;
  /// Leaves as many micro-batches as a search for rows can afford.
  static void shorten(Run& run, uint64_t actions, size_t stages);
  /// Refuses a plan whose stages alone take `beat`.
  std::optional<Refusal> beaten(const StagePlan& plan, const Run& run, double beat) const;
  /// Adds the objective to a plan with a known step time, unless the step takes too long.
  JudgedPlan conclude(StagePlan plan, const Run& run) const;
  std::optional<Refusal> too_slow(const StagePlan& plan) const;
  /// Refuses a requested period that is too short for the stages.
  std::optional<Refusal> too_fast(const StagePlan& plan, const Run& run) const;
  /// Adds warm-up depths to a plan whose schedule takes some but has none: those specified, or by latency and memory.
  std::optional<Refusal> add_depths(StagePlan& plan, const Run& run) const;
  /// Follows the rows of each place unless a rule has determined the peaks. Refuses a plan that does not fit.
  std::optional<Refusal> add_peaks(StagePlan& plan, const Run& run, const ir::Schedule& rows) const;
  ir::Schedule rows_of(const StagePlan& plan, const Run& run) const;
  void add_routes(const StagePlan& plan, Run& run) const;
  double simulated(const StagePlan& plan, Run& run);
  static double grain_of(const StagePlan& plan, const Run& run);
  /// Lower bound for all schedules: each stage begins after the stages before it, works, and ends before they do.
  double least_step(const StagePlan& plan, const Run& run) const;
  double objective(const StagePlan& plan, const Run& run) const;

  const StageProblem& problem_;
  std::unique_ptr<RangeCosts> ranges_;
  std::map<uint64_t, Sums> sums_;
  StageHulls hulls_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<RebuildPoint>> points_;  ///< of `hulls_`, by blocks
  uint64_t spent_ = 0, row_actions_ = 0;
};

/// Returns the schedule of a judged plan, with its parameters: the warm-up depths, or the times of its stages and those
/// that the problem specifies.
ScheduleSpec schedule_of(const StageProblem& problem, const RangeCosts& ranges, const StagePlan& plan);

/// Number of micro-batches that a stage of the plan holds at once by the rule of its schedule, or by its depths. An
/// upper bound if the schedule has no rule.
uint64_t held_micro_batches(const StagePlan& plan, size_t stage);

/// Returns the name of an objective, such as `simulated time of a mini-batch, ns`.
std::string_view objective_name(Objective objective);

/// Whether `a` has the smaller objective, or an equal one (in its first 30 bits) and the shorter step. A strict weak
/// order.
bool better(const StagePlan& a, const StagePlan& b);

}  // namespace rannc::partition
