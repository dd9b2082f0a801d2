/// Trips of a Loop whose condition compares integers that the loop counts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/dim/dim.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// What is known before the first trip.
struct CountingLoop {
  const ONNX_NAMESPACE::GraphProto& body;
  std::vector<std::optional<ir::Dim>> states;  ///< the one integer of each, where it is known
  /// The one integer, or truth value, that a stored tensor of the body is.
  std::function<std::optional<ir::Dim>(const ONNX_NAMESPACE::TensorProto&)> stored;
  /// The same of a name that the body does not define.
  std::function<std::optional<ir::Dim>(const std::string&)> around;
};

/// How many trips the loop makes by its condition alone, which holds before the first. Integers that each trip adds the
/// same to, the number of the trip, and what is known around the loop may be compared; comparisons may be joined by
/// And. Every symbol is taken for at least 1. Nothing: the condition is of another form, or always holds. Linear in the
/// body.
std::optional<ir::Dim> counted_trips(const CountingLoop& loop);

}  // namespace rannc::frontend
