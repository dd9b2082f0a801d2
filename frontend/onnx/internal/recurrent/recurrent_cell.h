/// Emits one step of a recurrent layer as ONNX defines it.
#pragma once

#include <vector>

#include "frontend/onnx/internal/recurrent/recurrent.h"

namespace rannc::frontend {

/// The cell of one direction. It emits into the graph of `node`.
class RecurrentCell {
 public:
  /// Weights common to all steps. Invalid: none.
  struct Weights {
    ValueId recurrence, candidate_recurrence, recurrent_bias, peepholes;
  };
  RecurrentCell(Node& node, const RecurrentLayer& layer, size_t direction, Weights weights)
      : node_(node), layer_(layer), direction_(direction), weights_(weights) {}

  /// Returns the states after a step from the projected input `row` [B, G * H] and the states before it.
  std::vector<ValueId> step(ValueId row, const std::vector<ValueId>& before) const;

 private:
  std::vector<ValueId> lstm(ValueId row, ValueId hidden, ValueId cell) const;
  std::vector<ValueId> gru(ValueId row, ValueId hidden) const;
  ValueId candidate(ValueId row, ValueId hidden, ValueId fed_back, ValueId reset) const;

  ValueId gates(ValueId of, int64_t first, int64_t last) const;
  ValueId product(ValueId hidden, ValueId recurrence, ValueId bias = {}) const;
  ValueId plus(ValueId a, ValueId b) const;           ///< a + b, where an invalid value is zero
  ValueId active(size_t function, ValueId x) const;   ///< activation of x after clipping
  ValueId applied(size_t function, ValueId x) const;  ///< activation of x without clipping, as for the cell state
  ValueId with_peephole(ValueId gate, ValueId cell, int64_t index) const;

  Node& node_;
  const RecurrentLayer& layer_;
  const size_t direction_;
  const Weights weights_;
};

/// Results of the tasks of one direction that run once before its first step.
struct RecurrentStart {
  ValueId projected;  ///< contribution of x to the gates of every step, [T, B, G * H]
  RecurrentCell::Weights weights;
  std::vector<ValueId> states;  ///< [B, H] each; invalid: zero
};
RecurrentStart start_of(Node& node, const RecurrentLayer& layer, size_t direction);

}  // namespace rannc::frontend
