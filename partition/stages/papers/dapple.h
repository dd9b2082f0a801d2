/// Implements DAPPLE's planner (PPoPP 2021, section 4).
#pragma once

#include <memory>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// One stage of the pipeline latency: a computation, or a network hop between two computations (with `all_reduce` 0).
struct LatencyStage {
  double forward = 0, backward = 0, all_reduce = 0;
};

/// How long before the end of the pivot's last backward pass a later stage s has finished.
enum class EndingCredit : uint8_t {
  kPrinted,  ///< the backward passes from the pivot to s, as in Formula 1: too generous
  kBetween,  ///< those strictly between the two, which is correct when the pivot begins its last one
};

/// Algorithm 1: returns the stage with the least bubbles. Stages include hops.
size_t pivot_stage(const std::vector<LatencyStage>& stages, uint64_t micro_batches);

/// Formulas 1 and 2: warm-up to the pivot, steady phase of the pivot, ending with all-reduces. Ignores bubbles inside
/// the pivot.
double pipeline_latency(const std::vector<LatencyStage>& stages, uint64_t micro_batches,
                        EndingCredit credit = EndingCredit::kPrinted);

/// Criterion for choosing a plan among micro-batch counts.
enum class DappleChoice : uint8_t {
  /// The least simulated time under P_A or P_B among the plans with the least L of each count; or the plan with the
  /// least L of all if it is faster in a device-by-device simulation.
  kSimulated,
  kLatency,  ///< the least L of all; P_A or P_B by simulation
};

struct DappleOptions {
  EndingCredit credit = EndingCredit::kPrinted;
  DappleChoice choice = DappleChoice::kSimulated;
};

/// Formulas 3-5 over device sets. A memoized search repeatedly splits the last stage and assigns devices to the front
/// part by Fresh, Append and Scatter First in every combination. Per (blocks planned, devices used) it keeps the two
/// best prefixes by latency L, because L is not decomposable. The remainder that can still be split counts as shared
/// equally by the free devices, even in fractions of samples. Pure data parallelism is priced as well. Plans fit memory
/// under early backward scheduling, with recompute if nothing fits without it and the problem allows a choice. A hop
/// runs at the rate of the slowest link between the two stages. The objective is the simulated time; L is in the notes.
///
/// Complete for its policies up to about 16 devices and 120 cuts. Beyond that, fewer device counts and cuts are tried,
/// and the notes state this.
std::unique_ptr<StagePlanner> dapple_planner(DappleOptions options = {});

}  // namespace rannc::partition
