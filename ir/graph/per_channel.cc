#include "ir/graph/per_channel.h"

namespace rannc::ir {

bool is_per_channel(const Graph& graph, ValueId value, const Shape& x) {
  const auto& shape = graph.type(value).shape;
  const size_t above = x.size() - 2;
  if (!shape || shape->size() <= above || shape->size() > x.size()) return false;
  const size_t channels = shape->size() - 1 - above;
  return (*shape)[channels] == x[1] && element_count(*shape) == x[1];
}

}  // namespace rannc::ir
