/// Times the stages of a plan on this machine as they will run: side by side.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

/// What running a plan showed.
struct MeasuredStages {
  /// The plan's `stage_times` with measured forward and backward times; what its memory is stays as planned.
  std::vector<ir::StageTime> stage_times;
  std::vector<ir::FinishTime> finish_times;  ///< of every stage, in order; empty for inference
  std::vector<int64_t> shared_ns;            ///< by the plan's shared parameters; empty for inference
};

/// Runs whole steps of the bundle's schedule on made-up samples (zeros for integers), a thread per device, each with
/// LibTorch's present number of threads: caches, memory and page tables are shared as in training. Times are those of
/// the median step of several, of passes the means over its micro-batches; waits for messages do not count, and sums of
/// gradients do from when the last member has joined. Where forward passes are repeated, forward time is the mean of
/// both. Symbols other than the batch take their values from `symbols`. Needs the memory of all devices together.
/// `progress` hears `step 2`, and may be empty.
Result<MeasuredStages> measure_stages(const Bundle& bundle, const ir::Bindings& symbols,
                                      const std::function<void(const std::string&)>& progress = {});

}  // namespace rannc::runtime
