#include "passes/parameters/internal/padding_rows.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {
namespace {

using ir::Graph;

constexpr ir::Capture kTable{0};

/// The one row whose bytes are all zero; none where there are more or fewer.
std::optional<int64_t> only_row_of_zeros(const Graph& graph, ValueId table) {
  const Graph::Value& found = graph.value(table);
  const auto& shape = found.type.shape;
  const bool matrix = shape && shape->size() == 2 && (*shape)[0].is_constant() && found.data.present();
  if (!matrix || (*shape)[0].constant() < 2) return std::nullopt;
  const auto bytes = found.data.read();
  if (!bytes.ok()) return std::nullopt;
  const auto rows = static_cast<size_t>((*shape)[0].constant()), width = bytes->size() / rows;
  std::optional<int64_t> only;
  for (size_t row = 0; row < rows; ++row) {
    const auto begin = bytes->begin() + static_cast<ptrdiff_t>(row * width);
    if (std::any_of(begin, begin + static_cast<ptrdiff_t>(width), [](std::byte b) { return b != std::byte{0}; }))
      continue;
    if (only) return std::nullopt;
    only = static_cast<int64_t>(row);
  }
  return only;
}

}  // namespace

std::vector<PaddingRow> padding_rows(const Graph& graph) {
  static const ir::Pattern kLookUp = ir::op("gather", ir::through("identity", ir::any(kTable)), ir::any());
  std::vector<PaddingRow> found;
  std::set<ValueId> seen;
  for (const TaskId task : graph.tasks()) {
    const auto look_up = ir::match(graph, task, kLookUp);
    if (!look_up) continue;
    const ValueId table = (*look_up)[kTable];
    const ir::OpAttributes attributes(graph.op(task), graph.attributes(task));
    const bool trained = graph.kind(table) == ir::ValueKind::kParameter && ir::is_float(graph.type(table).dtype);
    if (!trained || attributes.has("padding_index") || attributes.integer("axis") != 0 || !seen.insert(table).second) {
      continue;
    }
    if (const auto row = only_row_of_zeros(graph, table)) found.push_back({std::string(graph.value(table).name), *row});
  }
  return found;
}

}  // namespace rannc::passes
