/// DAPPLE's planner (PPoPP 2021, section 4).
#pragma once

#include <memory>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// One stage of the pipeline latency: a computation, or a network hop between two (then `all_reduce` is 0).
struct LatencyStage {
  double forward = 0, backward = 0, all_reduce = 0;
};

/// How long before the pivot's last backward pass ends a stage s behind it has been done.
enum class EndingCredit : uint8_t {
  kPrinted,  ///< the backward passes from the pivot to s, as Formula 1 has it: too generous
  kBetween,  ///< those strictly between the two, what is true when the pivot begins its last one
};

/// Algorithm 1: the stage with the least bubbles. Stages include hops.
size_t pivot_stage(const std::vector<LatencyStage>& stages, uint64_t micro_batches);

/// Formulas 1 and 2: warm-up to the pivot, steady phase of the pivot, ending with all-reduces. Bubbles inside the pivot
/// are left out.
double pipeline_latency(const std::vector<LatencyStage>& stages, uint64_t micro_batches,
                        EndingCredit credit = EndingCredit::kPrinted);

/// By what a plan is chosen among micro-batch counts.
enum class DappleChoice : uint8_t {
  /// Of the plans with the least L of every count, the least simulated time under P_A or P_B; or the plan with the
  /// least
  /// L of all where that runs faster device by device.
  kSimulated,
  kLatency,  ///< the least L of all; P_A or P_B by simulation
};

struct DappleOptions {
  EndingCredit credit = EndingCredit::kPrinted;
  DappleChoice choice = DappleChoice::kSimulated;
};

/// Formulas 3-5 over device sets: a memoized search that parts the last stage again and again, giving the front part
/// devices by Fresh, Append and Scatter First in every mix; per (blocks planned, devices used) it keeps the two best
/// prefixes by latency L, since L is not decomposable. The rest that can still be parted counts as shared equally by
/// the free devices, whole samples or not. Pure data parallelism is priced beside it. Plans fit memory under early
/// backward scheduling, with recompute where nothing fits without and the problem lets choose. A hop runs at the rate
/// of the slowest link between the two stages. The objective is the simulated time; L stands in the notes.
///
/// Complete for its policies up to about 16 devices and 120 cuts; beyond, fewer device counts and cuts are tried and
/// the notes say so.
std::unique_ptr<StagePlanner> dapple_planner(DappleOptions options = {});

}  // namespace rannc::partition
