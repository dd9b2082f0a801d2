/// Dynamic loss scaling, which keeps gradients within the range of float16.
#pragma once

#include <cstdint>

#include "ir/graph/graph.h"

namespace rannc::runtime {

/// The factor by which the loss is multiplied before the backward pass. Powers of two, so that gradients divided by it
/// are exact. It grows after many steps with finite gradients and shrinks after a step without, as
/// `torch.amp.GradScaler` does.
struct LossScale {
  static constexpr double kInitial = 65536, kLeast = 1, kMost = 0x1p60;
  static constexpr uint64_t kGrowthInterval = 2000;

  double scale = kInitial;
  uint64_t finite_steps = 0;  ///< since the last change of `scale`

  bool is_least() const { return scale <= kLeast; }
  /// Adapts the scale after a step.
  void count(bool finite);
  bool operator==(const LossScale&) const = default;
};

/// Whether gradients of float32 parameters pass through float16 values. Such a model is trained with a loss scale.
bool needs_loss_scale(const ir::Graph& graph);

}  // namespace rannc::runtime
