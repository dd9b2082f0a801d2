/// Times the stages of a plan on this machine as they will run: side by side.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "runtime/bundle.h"

namespace rannc::runtime {

/// What running a plan showed.
struct MeasuredStages {
  /// The plan's `stage_times` with measured forward and backward times; what its memory is stays as planned.
  std::vector<ir::StageTime> stage_times;
  std::vector<int64_t> optimizer_ns;  ///< by stage; empty for inference
};

/// Runs whole steps of the bundle's schedule on made-up samples (zeros for integers), a thread per device, each with
/// LibTorch's present number of threads: caches, memory and page tables are shared as in training. Times are means over
/// the micro-batches of that step, of several, which took the least; waits for messages do not count. Where forward
/// passes are repeated, forward time is the mean of both. Symbols other than the batch take their values from
/// `symbols`. Needs the memory of all devices together. `progress` hears `step 2`, and may be empty.
Result<MeasuredStages> measure_stages(const Bundle& bundle, const ir::Bindings& symbols,
                                      const std::function<void(const std::string&)>& progress = {});

}  // namespace rannc::runtime
