#include "ir/plan/fixed_samples.h"

#include <limits>

namespace rannc::ir {

std::optional<uint32_t> fixed_samples(const Graph& graph) {
  if (!graph.batch_symbol().empty()) return std::nullopt;
  for (const ValueId input : graph.inputs()) {
    const auto& shape = graph.type(input).shape;
    if (!shape || shape->empty()) continue;
    if (!shape->front().is_constant()) return 1;
    const int64_t extent = shape->front().constant();
    if (extent > 1 && extent <= std::numeric_limits<uint32_t>::max()) return static_cast<uint32_t>(extent);
  }
  return 1;
}

}  // namespace rannc::ir
