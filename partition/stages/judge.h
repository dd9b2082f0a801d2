/// What a stage plan really costs: one mini-batch on the schedule simulator, with memory per device.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "partition/stages/plan.h"
#include "partition/stages/problem.h"

namespace rannc::partition {

class RangeCosts;

/// Simulates plans of one problem. All planners are compared by it, so hybrid, straight and data-parallel plans compete
/// on equal terms. Keeps a reference to the problem; not for several threads at once.
///
/// A stage with replicas is simulated as one device that works as long as its slowest replica; a message takes the time
/// of the larger of the producer's and the consumer's share over the slowest link between two replicas that share
/// samples. An all-reduce starts when the stage's last backward pass ends.
class PlanJudge {
 public:
  explicit PlanJudge(const StageProblem& problem);
  ~PlanJudge();

  /// Fills times, all-reduce and peak memory of the stages for the plan's own schedule (`gpipe`, `1f1b`, `dapple-b`,
  /// `warmup` with `warm_up`), sets objective to the simulated ns of a mini-batch and returns it. Nothing: some stage
  /// does not fit its devices, or a replica would have no sample; then `why` says so where it is given.
  std::optional<double> judge(StagePlan& plan, std::string* why = nullptr);

  /// No plan of the problem takes less simulated time: work over all devices, the heaviest block once per micro-batch,
  /// or the way of one micro-batch through all blocks. `name` becomes the active one.
  double lower_bound(std::string* name = nullptr) const;

  const RangeCosts& ranges() const { return *ranges_; }
  uint64_t judged() const { return judged_; }

 private:
  struct Sums {
    std::vector<std::vector<double>> forward, backward;  ///< per kind, prefix sums over blocks
  };
  struct Run;

  const Sums& sums(uint64_t samples);
  bool price(StagePlan& plan, Run& run, std::string* why);
  void add_routes(const StagePlan& plan, Run& run) const;

  const StageProblem& problem_;
  std::unique_ptr<RangeCosts> ranges_;
  std::map<uint64_t, Sums> sums_;
  uint64_t judged_ = 0;
};

/// Micro-batches that stage s of the plan holds at once under its schedule.
uint64_t held_micro_batches(const StagePlan& plan, size_t stage);

}  // namespace rannc::partition
