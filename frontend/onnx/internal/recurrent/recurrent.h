/// ONNX's recurrent layers: what a node says of one, and the two ways in which it becomes tasks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx/internal/translate/rows.h"

namespace rannc::frontend {

enum class CellKind : uint8_t { kLstm, kGru, kRnn };

/// A function of a cell, by ONNX's name in lower case, with its numbers.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

/// One node, time first: x [T, B, I], weight [D, G * H, I], recurrence [D, G * H, H], bias [D, 2 * G * H], states
/// [D, B, H]. Gates stand in ONNX's order: i, o, f, c or z, r, h. Optional values are invalid where absent; states are
/// where they are zero.
struct RecurrentLayer {
  CellKind kind = CellKind::kLstm;
  int64_t gates = 4, hidden = 0;
  ir::Dim steps;
  std::vector<bool> backwards;                       ///< by direction
  std::vector<std::vector<Activation>> activations;  ///< by direction: f, g, h
  ValueId x, weight, recurrence, bias, lengths, initial_hidden, initial_cell, peepholes;
  std::optional<double> clip;
  bool couples_gates = false;  ///< an LSTM forgets as much as it takes in
  bool resets_after = false;   ///< a GRU's reset gate meets the product of state and recurrence, not the state
  bool wants_cell = false;     ///< an LSTM's last cells are read

  size_t directions() const { return backwards.size(); }
  size_t states() const { return kind == CellKind::kLstm ? 2 : 1; }
};

/// y [T, D, B, H], and the states [D, B, H] after the last step of each sample.
struct RecurrentResults {
  ValueId y;
  std::vector<ValueId> states;
};

/// Whether `core.lstm`, `core.gru` and `core.rnn` know all of it.
bool is_of_core(const RecurrentLayer& layer);
/// One task of these operators, or one for each direction where samples have lengths of their own.
RecurrentResults as_operator(Node& node, const RecurrentLayer& layer);
/// Any layer, step by step (`recurrent_cell.h`).
RecurrentResults step_by_step(Node& node, const RecurrentLayer& layer);

}  // namespace rannc::frontend
