/// Reports where a training step makes numbers that are not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/ids.h"

namespace rannc::runtime {

/// A tensor of a step with NaN or infinite elements.
struct NonfiniteValue {
  enum class Phase : uint8_t {
    kForward,
    kBackward,  ///< a gradient, or a gradient sum after the task's term was added
    kUpdate,    ///< found at the end of the step: no task makes it
  };
  Phase phase = Phase::kForward;
  uint64_t step = 0;
  StageId stage;
  std::optional<uint32_t> micro_batch;  ///< empty: computed once per step
  TaskId task;                          ///< of the plan; in the backward pass the one that is differentiated
  uint32_t position = 0;                ///< within the phase of a stage, in the order of execution
  /// Of `kUpdate`: `gradient/<name>`, or a key of `CheckpointTensors`.
  std::string name;
  std::vector<int64_t> shape;
  uint64_t elements = 0, nan = 0, infinite = 0;
  /// Whether the task read NaN or infinite numbers. Those among its attributes count, such as a mask's.
  bool reads_nan = false, reads_infinite = false;
};

class NonfiniteObserver {
 public:
  virtual ~NonfiniteObserver() = default;
  /// Called by several threads, for each such tensor in the order of each device's execution.
  virtual void found(const NonfiniteValue& value) = 0;
};

}  // namespace rannc::runtime
