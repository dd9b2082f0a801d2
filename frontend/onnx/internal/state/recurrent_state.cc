#include "frontend/onnx/internal/state/recurrent_state.h"

#include <fmt/format.h>

namespace rannc::frontend {

namespace {

using GateOrder = std::vector<int64_t>;

/// Positions in ONNX of PyTorch's gates, in PyTorch's order.
GateOrder gates_of(std::string_view op) {
  if (op == "LSTM") return {0, 2, 3, 1};
  if (op == "GRU") return {1, 0, 2};
  return {0};
}

/// `G·H` rows of a direction from `first` on, gate by gate. `columns` is the width of a weight, negative for a bias.
ir::StateTensor rows(std::string name, ValueId value, const GateOrder& gates, int64_t hidden, int64_t direction,
                     int64_t first, int64_t columns) {
  ir::StateTensor tensor{std::move(name), {static_cast<int64_t>(gates.size()) * hidden}, {}};
  if (columns >= 0) tensor.shape.push_back(columns);
  for (const int64_t gate : gates) {
    ir::StatePart part{value, {direction, first + gate * hidden}, {1, hidden}, {0, 1}};
    if (columns >= 0) {
      part.begin.push_back(0);
      part.extent.push_back(columns);
      part.axes.push_back(2);
    }
    tensor.parts.push_back(std::move(part));
  }
  return tensor;
}

}  // namespace

std::vector<ir::StateTensor> recurrent_state(const ir::Graph& graph, std::string_view op, ValueId value,
                                             uint32_t operand, const std::string& module, size_t layer) {
  std::vector<ir::StateTensor> state;
  const auto& shape = graph.type(value).shape;
  if (!shape || shape->size() != (operand == 3 ? 2 : 3)) return state;
  for (const ir::Dim& dim : *shape) {
    if (!dim.is_constant()) return state;
  }
  const GateOrder gates = gates_of(op);
  const auto count = static_cast<int64_t>(gates.size());
  const int64_t directions = (*shape)[0].constant(), all = (*shape)[1].constant();
  const int64_t hidden = all / (operand == 3 ? 2 * count : count);
  if (hidden * (operand == 3 ? 2 * count : count) != all || directions < 1 || directions > 2) return state;
  const std::string_view kind = operand == 3 ? "bias" : "weight";
  for (int64_t direction = 0; direction < directions; ++direction) {
    const auto add = [&](std::string_view of, int64_t first) {
      std::string name = fmt::format("{}{}{}_{}_l{}{}", module, module.empty() ? "" : ".", kind, of, layer,
                                     direction == 1 ? "_reverse" : "");
      const int64_t columns = operand == 3 ? -1 : (*shape)[2].constant();
      state.push_back(rows(std::move(name), value, gates, hidden, direction, first, columns));
    };
    if (operand != 2) add("ih", 0);
    if (operand == 2) add("hh", 0);
    if (operand == 3) add("hh", count * hidden);
  }
  return state;
}

}  // namespace rannc::frontend
