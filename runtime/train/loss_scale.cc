#include "runtime/train/loss_scale.h"

#include <algorithm>

namespace rannc::runtime {

void LossScale::count(bool finite) {
  if (!finite) {
    scale = std::max(scale / 2, kLeast);
    finite_steps = 0;
  } else if (++finite_steps == kGrowthInterval) {
    scale = std::min(scale * 2, kMost);
    finite_steps = 0;
  }
}

bool needs_loss_scale(const ir::Graph& graph) {
  bool wide_parameters = false, narrow_results = false;
  for (const ValueId value : graph.values()) {
    const ir::DType dtype = graph.type(value).dtype;
    const ir::ValueKind kind = graph.kind(value);
    wide_parameters = wide_parameters || (kind == ir::ValueKind::kParameter && dtype == ir::DType::kF32);
    narrow_results = narrow_results || (kind == ir::ValueKind::kActivation && dtype == ir::DType::kF16);
  }
  return wide_parameters && narrow_results;
}

}  // namespace rannc::runtime
