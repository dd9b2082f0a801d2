/// Computes the trip count of a Loop whose condition compares integers that the loop counts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/dim/dim.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Input to `counted_trips`.
struct CountingLoop {
  const ONNX_NAMESPACE::GraphProto& body;
  std::vector<std::optional<ir::Dim>> states;  ///< the initial integer of each state, if known
  /// The single integer or boolean in a stored tensor of the body.
  std::function<std::optional<ir::Dim>(const ONNX_NAMESPACE::TensorProto&)> stored;
  /// Likewise for a name that the body does not define.
  std::function<std::optional<ir::Dim>(const std::string&)> around;
};

/// Returns the trip count that follows from the condition alone, which must hold before the first trip. The condition
/// may compare the trip number, integers to which each trip adds the same amount, and known integers from outside the
/// loop. Comparisons may be combined by And. Assumes that every symbol is at least 1. Returns nothing if the condition
/// has another form or always holds. Linear in the body.
std::optional<ir::Dim> counted_trips(const CountingLoop& loop);

}  // namespace rannc::frontend
