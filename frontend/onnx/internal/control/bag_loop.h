/// Recognizes loops over bags of equal length, as exporters write an embedding bag.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "frontend/recipes/bags.h"
#include "ir/graph/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// A Loop before its body is translated.
struct LoopOverBags {
  const ONNX_NAMESPACE::GraphProto& body;
  ir::Dim trips;
  bool has_condition;  ///< whether its condition could end it early
  int sequence = -1;   ///< index of the state that is a sequence while the other counts trips from 0; -1: no states
  const TaskWriter& around_it;
  std::function<ValueId(const std::string&)> around;  ///< looks up a name outside the body; invalid: no tensor
  std::function<std::optional<ir::Shape>(const ONNX_NAMESPACE::TensorProto&)> stored;  ///< the integers of a tensor
};

/// Operands of the reduction in each trip: its bag of `rows`, or the rows of `table` at its bag of `indices`, scaled by
/// its bag of `weights` if there are any.
struct ReducedBags {
  EqualBags bags;
  std::string reduction;     ///< ONNX operator: ReduceSum, ReduceMean, ReduceMax
  bool in_sequence = false;  ///< whether each result is appended to the sequence instead of stacked
  ValueId rows, table, indices, weights;
};

/// Returns nothing if the loop does anything else or its bags may differ in length. Linear in the body.
std::optional<ReducedBags> reduced_bags(const LoopOverBags& loop);

}  // namespace rannc::frontend
