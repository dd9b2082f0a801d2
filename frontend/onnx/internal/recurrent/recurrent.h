/// Translates ONNX's recurrent layers, as one core operator or step by step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx/internal/translate/rows.h"

namespace rannc::frontend {

enum class CellKind : uint8_t { kLstm, kGru, kRnn };

/// Activation of a cell: ONNX's name in lower case, with its parameters.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

/// One node, time first: x [T, B, I], weight [D, G * H, I], recurrence [D, G * H, H], bias [D, 2 * G * H], states
/// [D, B, H]. Gates are in ONNX's order: i, o, f, c or z, r, h. Absent optional values are invalid. An invalid state is
/// zero.
struct RecurrentLayer {
  CellKind kind = CellKind::kLstm;
  int64_t gates = 4, hidden = 0;
  ir::Dim steps;
  std::vector<bool> backwards;                       ///< by direction
  std::vector<std::vector<Activation>> activations;  ///< by direction: f, g, h
  ValueId x, weight, recurrence, bias, lengths, initial_hidden, initial_cell, peepholes;
  std::optional<double> clip;
  bool couples_gates = false;  ///< an LSTM's forget gate is 1 - input gate
  bool resets_after = false;   ///< a GRU's reset gate applies to the product of state and recurrence, not to the state
  bool wants_cell = false;     ///< an LSTM's last cell states are read

  size_t directions() const { return backwards.size(); }
  size_t states() const { return kind == CellKind::kLstm ? 2 : 1; }
};

/// Output y [T, D, B, H] with the states [D, B, H] after the last step of each sample.
struct RecurrentResults {
  ValueId y;
  std::vector<ValueId> states;
};

/// Whether `core.lstm`, `core.gru` or `core.rnn` supports the layer.
bool is_of_core(const RecurrentLayer& layer);
/// Emits one task of these operators, or one per direction if samples have different lengths.
RecurrentResults as_operator(Node& node, const RecurrentLayer& layer);
/// Emits any layer step by step (`recurrent_cell.h`).
RecurrentResults step_by_step(Node& node, const RecurrentLayer& layer);

}  // namespace rannc::frontend
