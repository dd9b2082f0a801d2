/// One step of a recurrent layer as ONNX defines it, apart from how steps are repeated.
#pragma once

#include <vector>

#include "frontend/onnx/internal/recurrent.h"

namespace rannc::frontend {

/// Of one direction. What does not change from step to step is emitted when it is made.
class RecurrentCell {
 public:
  RecurrentCell(Node& node, const RecurrentLayer& layer, size_t direction);

  /// What x adds to the gates of every step, [T, B, G * H].
  ValueId projected() const { return projected_; }
  /// The states before the first step, [B, H] each; invalid: zero.
  std::vector<ValueId> start() const;
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
  ValueId projected_, recurrence_, candidate_recurrence_, recurrent_bias_, peepholes_;
};

}  // namespace rannc::frontend
