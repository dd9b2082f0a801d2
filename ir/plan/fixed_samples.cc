#include "ir/plan/fixed_samples.h"

#include <algorithm>
#include <limits>
#include <set>

namespace rannc::ir {

namespace {

/// The symbol on axis 0 of the first input with axes.
std::string leading_symbol(const Graph& graph) {
  for (const ValueId input : graph.inputs()) {
    const auto& shape = graph.type(input).shape;
    if (!shape || shape->empty()) continue;
    return shape->front().is_symbol() ? shape->front().symbol_name() : std::string();
  }
  return {};
}

}  // namespace

std::string undivided_symbol(const Graph& graph) {
  if (!graph.batch_symbol().empty() || graph.losses().empty()) return {};
  const std::string symbol = leading_symbol(graph);
  if (symbol.empty()) return {};
  std::set<std::string> beside, alone;
  for (const ValueId input : graph.inputs()) {
    const Shape shape = graph.type(input).shape.value_or(Shape{});
    const bool counts = !shape.empty() && shape.front() == Dim::symbol(symbol);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis].uses(symbol) && (axis > 0 || !counts)) return {};
      shape[axis].collect_symbols(counts ? beside : alone);
    }
  }
  return std::includes(beside.begin(), beside.end(), alone.begin(), alone.end()) ? symbol : std::string();
}

std::string samples_symbol(const Graph& graph) {
  return graph.batch_symbol().empty() ? undivided_symbol(graph) : std::string(graph.batch_symbol());
}

std::optional<uint32_t> fixed_samples(const Graph& graph, const Bindings& sizes) {
  if (!graph.batch_symbol().empty()) return std::nullopt;
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (const std::string symbol = undivided_symbol(graph); !symbol.empty()) {
    const auto size = sizes.find(symbol);
    return size == sizes.end() || size->second > kMost ? 1 : static_cast<uint32_t>(size->second);
  }
  for (const ValueId input : graph.inputs()) {
    const auto& shape = graph.type(input).shape;
    if (!shape || shape->empty()) continue;
    if (!shape->front().is_constant()) return 1;
    const int64_t extent = shape->front().constant();
    if (extent > 1 && extent <= kMost) return static_cast<uint32_t>(extent);
  }
  return 1;
}

}  // namespace rannc::ir
