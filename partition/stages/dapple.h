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

/// Algorithm 1: the stage with the least bubbles. Stages include hops.
size_t pivot_stage(const std::vector<LatencyStage>& stages, uint64_t micro_batches);

/// Formulas 1 and 2 as printed: warm-up to the pivot, steady phase of the pivot, ending with all-reduces. The credit for
/// stages behind the pivot is generous as printed, and bubbles inside the pivot are left out.
double pipeline_latency(const std::vector<LatencyStage>& stages, uint64_t micro_batches);

/// Formulas 3-5 over device sets: a memoized search that parts the last stage again and again, giving the front part
/// devices by Fresh, Append and Scatter First in every mix; per (blocks planned, devices used) it keeps the two best
/// prefixes by latency L, since L is not decomposable. The first stage may have any device count, later ones powers of
/// two, whole machines, or all but one or two of what is left; beyond 49 blocks 48 cuts are tried. Pure data parallelism is priced beside it. For each
/// micro-batch count the least L that fits memory under early backward scheduling stands for it; the least simulated
/// time among the counts wins and is the objective; L stands in the notes.
std::unique_ptr<StagePlanner> dapple_planner();

}  // namespace rannc::partition
