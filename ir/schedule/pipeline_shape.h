/// Properties of a pipeline that schedules use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/base/ids.h"
#include "ir/base/program_kind.h"

namespace rannc::ir {

/// Bytes that a pass over `samples` samples of a micro-batch needs.
struct PassBytes {
  int64_t samples = 0, bytes = 0;
  bool operator==(const PassBytes&) const = default;
};

/// The same for several numbers of samples, each once.
using SizedBytes = std::vector<PassBytes>;

/// Bytes of the smallest known share of at least `samples`; of the largest known share if `samples` exceeds it; 0 if
/// none is known.
inline int64_t bytes_at(const SizedBytes& pass, int64_t samples) {
  const PassBytes* best = nullptr;
  for (const PassBytes& known : pass) {
    const bool covers = known.samples >= samples;
    const bool better = best == nullptr || (covers ? best->samples < samples || known.samples < best->samples
                                                   : known.samples > best->samples);
    if (better) best = &known;
  }
  return best == nullptr ? 0 : best->bytes;
}

/// Properties of a pipeline stage that schedules use. Bytes are those of one replica.
struct StageShape {
  std::vector<DeviceId> devices;  ///< replica r runs on devices[r]; distinct
  bool recompute = false;         ///< a forward pass may drop `saved` and redo it in an `R`
  int64_t fixed_bytes = 0;        ///< parameters, optimizer state, buffers, samples of the mini-batch: always held
  int64_t saved_bytes = 0;        ///< per sample: kept from F (or R) until B or W; includes received inputs
  int64_t kept_bytes = 0;         ///< per sample: kept from an F that an R repeats, until B or W
  int64_t pending_bytes = 0;      ///< per sample: change from I to W (needed by W minus freed by I); may be negative
  int64_t temporary_bytes = 0;    ///< per sample: only while an action of the stage runs
  int64_t gradient_bytes = 0;     ///< gradients of parameters: from the first B or W of the step on
  /// By action, including all that it produces and keeps. Where nothing is known, an action needs what it produces and
  /// keeps, and `temporary_bytes`.
  PassPeaks<SizedBytes> peaks;
  int64_t sum_bytes = 0;   ///< of sums over replicas, from the last B or W of the step to S
  int64_t step_bytes = 0;  ///< while the optimizer steps, and shares are summed
  uint32_t sums = 1;       ///< buckets in which replicas sum gradients: number of its ARs or SCs on a device
  bool sharded = false;    ///< each replica updates a share of the parameters: SC, U and AG instead of AR and S
  bool operator==(const StageShape&) const = default;
};

/// A value that one other stage reads. A value with two reading stages has two routes. `producer` < `consumer`.
struct RouteShape {
  StageId producer, consumer;
  int64_t bytes_per_sample = 0;  ///< of the activation; its gradient has the same size
  bool gradient = true;          ///< whether a gradient is sent back; never for integers and booleans
  /// Whether the value is part of what its producer saves, or of what it keeps for an R. A pending send then needs no
  /// further memory.
  bool saved = false, kept = false;
  /// The same of its consumer. A value between stages of one device that both keep is there once.
  bool consumer_saves = false, consumer_keeps = false;
  bool operator==(const RouteShape&) const = default;
};

/// A parameter that several stages hold. Their gradients are added before any of them steps.
struct SharedShape {
  std::vector<StageId> stages;  ///< owner first, the others ascending; distinct, two or more
  int64_t bytes = 0;
  bool operator==(const SharedShape&) const = default;
};

/// The view of a plan that schedules use. A device may hold several stages, and a stage may have several devices.
struct PipelineShape {
  std::vector<StageShape> stages;  ///< in topological order
  std::vector<RouteShape> routes;
  std::vector<SharedShape> shared;
  std::vector<uint32_t> micro_batches;  ///< samples of each
  uint32_t devices = 0;
  std::vector<int64_t> memory_bytes;  ///< limit of each device, 0: none; may be empty: none anywhere
  bool training = true;               ///< false: forward only

  uint32_t micro_batch_count() const { return static_cast<uint32_t>(micro_batches.size()); }
  bool operator==(const PipelineShape&) const = default;
};

/// A chain of stages: stage i runs on device i, micro-batches have one sample, every stage saves one byte per sample.
PipelineShape chain_shape(uint32_t stages, uint32_t micro_batches);

/// The samples `[first, last)` of a micro-batch.
struct SampleRange {
  int64_t first = 0, last = 0;
  bool empty() const { return first >= last; }
  int64_t size() const { return last - first; }
};

/// Samples of replica r of n in a micro-batch of b: [⌊b·r/n⌋, ⌊b·(r+1)/n⌋).
inline SampleRange replica_samples(int64_t samples, size_t replica, size_t replicas) {
  if (replicas == 1) return {0, samples};
  const auto r = static_cast<int64_t>(replica), n = static_cast<int64_t>(replicas);
  return {samples * r / n, samples * (r + 1) / n};
}

/// The replica whose range contains a sample.
inline size_t sample_owner(int64_t samples, int64_t sample, size_t replicas) {
  return replicas == 1 ? 0 : static_cast<size_t>(((sample + 1) * static_cast<int64_t>(replicas) - 1) / samples);
}

}  // namespace rannc::ir
