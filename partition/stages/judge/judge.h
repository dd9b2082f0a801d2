/// What a stage plan really costs: one mini-batch on the schedule simulator, with memory per device.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partition/stages/bounds/bounds.h"
#include "partition/stages/problem/plan.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

class RangeCosts;
struct ScheduleSpec;

/// Simulates plans of one problem. All planners are compared by it, so hybrid, straight and data-parallel plans compete
/// on equal terms. Keeps a reference to the problem; not for several threads at once.
///
/// A stage with replicas is simulated as one device that works as long as its slowest replica. Messages wait for the
/// ports of their stages, one at a time in each direction; a message takes as long as the busiest port on its way,
/// where a node has one port to the other nodes. An all-reduce starts when the stage's last backward pass ends; the
/// optimizer follows it.
class PlanJudge {
 public:
  explicit PlanJudge(const StageProblem& problem);
  ~PlanJudge();

  /// Fills times, all-reduce and peak memory of the stages for the plan's own schedule (one of `schedules_of_auto`;
  /// `warmup` with `warm_up`), `step_ns` and the problem's objective, and returns the objective. Nothing: some stage
  /// does not fit its devices, a replica would have no sample, or the step exceeds the time limit; then `why` says so
  /// where it is given. Where the objective is the step time, nothing also means that the stages alone show that the
  /// step takes `beat` or longer; such a plan is not simulated.
  std::optional<double> judge(StagePlan& plan, std::string* why = nullptr,
                              double beat = std::numeric_limits<double>::infinity());

  /// What `judge` would say, from the start of a long mini-batch and the pace that it has taken up by then; exact for
  /// short ones. Close where the slowest stage sets the pace early, too low where a backlog drains slowly. Only
  /// `step_ns` and, where that is it, the objective are set.
  std::optional<double> estimate(StagePlan& plan, std::string* why = nullptr,
                                 double beat = std::numeric_limits<double>::infinity());

  /// The same for a plan that has been judged, device by device: every replica, every value and every port on its own,
  /// which is how finished plans are predicted. `beat` counts against what the computations alone take.
  std::optional<double> finish(StagePlan& plan, std::string* why = nullptr,
                               double beat = std::numeric_limits<double>::infinity());

  /// No plan of the problem has a smaller objective; `name` becomes the argument that says so.
  double lower_bound(std::string* name = nullptr, const BoundEffort& effort = {}) const;

  const RangeCosts& ranges() const { return *ranges_; }
  /// What all judgements so far have cost: half the actions that were simulated one by one, and the devices of every
  /// plan.
  uint64_t spent() const { return spent_; }

 private:
  struct Sums {
    std::vector<std::vector<double>> forward, backward, weight;  ///< per kind, prefix sums over blocks
  };
  struct Run;

  const Sums& sums(uint64_t samples);
  bool price(StagePlan& plan, Run& run, std::string* why);
  /// Prices stages and cuts the mini-batch; a stage is a device, and nothing is sent yet.
  bool lay_out(StagePlan& plan, Run& run, std::string* why);
  /// Lays the plan out with its messages; false: it does not fit, or its stages alone take `beat`.
  bool begin(StagePlan& plan, Run& run, std::string* why, double beat);
  /// The objective of a plan whose step is known, unless the step takes too long.
  std::optional<double> conclude(StagePlan& plan, const Run& run, std::string* why) const;
  bool within_time(const StagePlan& plan, std::string* why) const;
  void add_routes(const StagePlan& plan, Run& run) const;
  double simulated(const StagePlan& plan, Run& run);
  static double grain_of(const StagePlan& plan, const Run& run);
  /// No schedule runs the plan in less: each stage begins after those before it, works, and ends before they do.
  double least_step(const StagePlan& plan, const Run& run) const;
  double objective(const StagePlan& plan, const Run& run) const;

  const StageProblem& problem_;
  std::unique_ptr<RangeCosts> ranges_;
  std::map<uint64_t, Sums> sums_;
  uint64_t spent_ = 0;
};

/// The plan's own schedule, with its warm-up depths.
ScheduleSpec schedule_of(const StagePlan& plan);

/// Micro-batches that stage s of the plan holds at once under its schedule.
uint64_t held_micro_batches(const StagePlan& plan, size_t stage);

/// `simulated time of a mini-batch, ns` and the like.
std::string_view objective_name(Objective objective);

/// Whether `a` has the smaller objective, or an equal one (in its first 30 bits) and the shorter step. A strict weak
/// order.
bool better(const StagePlan& a, const StagePlan& b);

}  // namespace rannc::partition
