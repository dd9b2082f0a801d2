/// One step of a recurrent layer as ONNX defines it, apart from how steps are repeated.
#pragma once

#include <vector>

#include "frontend/onnx/internal/recurrent/recurrent.h"

namespace rannc::frontend {

/// Of one direction, in the graph that it is given.
class RecurrentCell {
 public:
  /// What does not change from step to step; invalid: none.
  struct Weights {
    ValueId recurrence, candidate_recurrence, recurrent_bias, peepholes;
  };
  RecurrentCell(Node& node, const RecurrentLayer& layer, size_t direction, Weights weights)
      : node_(node), layer_(layer), direction_(direction), weights_(weights) {}

  /// Those after a step, from the row [B, G * H] that x adds and those before it.
  std::vector<ValueId> step(ValueId row, const std::vector<ValueId>& before) const;

 private:
  std::vector<ValueId> lstm(ValueId row, ValueId hidden, ValueId cell) const;
  std::vector<ValueId> gru(ValueId row, ValueId hidden) const;
  ValueId candidate(ValueId row, ValueId hidden, ValueId fed_back, ValueId reset) const;

  ValueId gates(ValueId of, int64_t first, int64_t last) const;
  ValueId product(ValueId hidden, ValueId recurrence, ValueId bias = {}) const;
  ValueId plus(ValueId a, ValueId b) const;           ///< of two that may be zero
  ValueId active(size_t function, ValueId x) const;   ///< of x as the layer clips it
  ValueId applied(size_t function, ValueId x) const;  ///< of x itself: a cell's content is not clipped
  ValueId with_peephole(ValueId gate, ValueId cell, int64_t index) const;

  Node& node_;
  const RecurrentLayer& layer_;
  const size_t direction_;
  const Weights weights_;
};

/// One direction before its first step: tasks that run once, however often the steps run.
struct RecurrentStart {
  ValueId projected;  ///< what x adds to the gates of every step, [T, B, G * H]
  RecurrentCell::Weights weights;
  std::vector<ValueId> states;  ///< [B, H] each; invalid: zero
};
RecurrentStart start_of(Node& node, const RecurrentLayer& layer, size_t direction);

}  // namespace rannc::frontend
