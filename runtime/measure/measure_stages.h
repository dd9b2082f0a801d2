/// Measures the stages of a plan on this machine, running side by side as in training.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

/// Measured times of a plan.
struct MeasuredStages {
  /// The plan's `stage_times` with measured forward, recompute and backward times. Memory figures stay as planned.
  std::vector<ir::StageTime> stage_times;
  /// By stage: how much longer the first forward pass of a step takes than the others, if the plan has a P that takes
  /// time. 0 for one micro-batch, whose forward pass includes P. Empty: the plan has none.
  std::vector<int64_t> begin_ns;
  /// By stage; empty for inference. E counts as part of the all-reduce or the optimizer, which run it.
  std::vector<ir::FinishTime> finish_times;
  std::vector<int64_t> shared_ns;  ///< by the plan's shared parameters; empty for inference
};

/// Runs whole steps of the bundle's schedule on synthetic samples (zeros for integers), with one thread per device and
/// LibTorch's current number of threads, so that caches, memory and page tables are shared as in training.
/// - Times are those of the median step; times of passes are means over its micro-batches.
/// - Waits for messages do not count. Gradient sums count from the time when the last member has joined. They run after
///   the backward passes, between threads. Between processes, above all over Gloo, they take longer, and their copies
///   take cores from the computations beside them: which transport a run will have is not known here.
/// `symbols` binds all symbols but the batch symbol. Needs the memory of all devices together. `progress` receives
/// texts such as `step 2` and may be empty.
Result<MeasuredStages> measure_stages(const Bundle& bundle, const ir::Bindings& symbols,
                                      const std::function<void(const std::string&)>& progress = {});

}  // namespace rannc::runtime
