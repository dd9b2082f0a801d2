/// Operands, sizes and oneDNN kernels of recurrent layers. Private to ir/op.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops::recurrent {

// Operands: x [T, B, I], weight [D, G * H, I], recurrence [D, G * H, H], two biases [D, G * H], states [D, B, H].
constexpr uint32_t kSequence = 0, kWeight = 1, kRecurrence = 2, kBias = 3, kRecurrentBias = 4, kHidden = 5, kCell = 6,
                   kOperands = 7;

struct Sizes {
  Dim steps, samples, features, rows, hidden;
  int64_t directions = 0;
};

inline Sizes sizes_of(std::span<const ValueType* const> operands) {
  const Shape &x = shape_of(*operands[kSequence]), &recurrence = shape_of(*operands[kRecurrence]);
  return {x[0], x[1], x[2], recurrence[1], recurrence[2], recurrence[0].constant()};
}

inline bool has(std::span<const ValueType* const> operands, size_t index) {
  return index < operands.size() && operands[index] != nullptr;
}

/// Operations of the forward pass: products, then about ten per row of the gates.
inline Dim layer_flops(const Sizes& sizes) {
  const Dim rows = sizes.steps * sizes.samples * Dim(sizes.directions) * sizes.rows;
  return rows * (Dim(2) * (sizes.features + sizes.hidden) + Dim(10));
}

/// Result types of an LSTM: its result, two states and, if `call` has more results, a workspace per direction.
Result<Types> lstm_types(const OpCall& call);

// --- oneDNN's kernel of one layer and direction (one_dnn_lstm.cc)

/// The kernel's number for an LSTM.
constexpr int64_t kLstmMode = 2;
/// Number of workspaces that LibTorch keeps of an LSTM on a CPU: one per direction, or none if it runs step by step. It
/// uses oneDNN for f32. For bf16 that depends on the processor.
uint32_t one_dnn_workspaces(const TapeCall& call);
/// Adds the types of the workspaces to those of the other results.
Result<void> add_workspaces(const OpCall& call, Types& types);
Result<aten::Lowering> lower_one_dnn_lstm(const LowerCall& call);
TapeUse one_dnn_lstm_tape(const TapeCall& call);
/// Bytes that oneDNN's kernels of the layer and of its gradient allocate for themselves.
Dim one_dnn_forward_scratch(const Sizes& sizes);
Dim one_dnn_scratch(const Sizes& sizes);
/// Bytes of one state of all directions.
Dim state_bytes(const TapeCall& call);
/// The sequence, kept without gaps between its elements.
Kept whole_x(uint32_t where_wanted);

/// Collects the operands of the kernel calls of an LSTM or its gradient.
class OneDnnLstm {
 public:
  /// By number in `call`: the operands of the LSTM in its order; UINT32_MAX: absent.
  using Places = std::array<uint32_t, kOperands>;
  OneDnnLstm(const LowerCall& call, const Places& places);

  /// The first arguments of a call: x, two weights, two biases and two states.
  std::vector<aten::Argument> operands(int64_t direction);
  /// The value without gaps between its elements, as the kernel reads x, states and results.
  aten::Value dense(const aten::Value& value);
  /// One direction of a value that has directions on axis 0, or that has them side by side on the last axis.
  aten::Value of_direction(const aten::Value& value, int64_t direction);
  aten::Value side(const aten::Value& value, int64_t direction);
  /// Values of all directions on a new axis 0.
  aten::Value stacked(const std::vector<aten::Value>& values);
  bool has_biases() const { return places_[kBias] != UINT32_MAX; }

  Sizes sizes;
  Calls calls;

 private:
  aten::Value x();
  aten::Value state(uint32_t operand, int64_t direction);

  const Places places_;
  std::array<std::optional<aten::Value>, kOperands> dense_;  // x and states
  std::optional<aten::Value> zeros_, no_bias_;
};

}  // namespace rannc::ir::ops::recurrent
