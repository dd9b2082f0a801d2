/// Loops over bags of equal length, as exporters write an embedding bag.
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
  bool asks;          ///< whether its condition could end it before
  int sequence = -1;  ///< which of two states is a sequence, the other counting trips from 0; -1: there are no states
  const TaskWriter& around_it;
  std::function<ValueId(const std::string&)> around;  ///< what a name of no value of the body is; invalid: no tensor
  std::function<std::optional<ir::Shape>(const ONNX_NAMESPACE::TensorProto&)> stored;  ///< the integers of a tensor
};

/// What each trip reduces: its bag of `rows`, or of the rows of `table` at its bag of `indices`, scaled by its bag of
/// `weights` where there are any.
struct ReducedBags {
  EqualBags bags;
  std::string reduction;     ///< of ONNX: ReduceSum, ReduceMean, ReduceMax
  bool in_sequence = false;  ///< each is a row that the sequence grows by; else a row that is stacked
  ValueId rows, table, indices, weights;
};

/// Nothing where the loop does anything else, or where its bags may have other lengths. Linear in the body.
std::optional<ReducedBags> reduced_bags(const LoopOverBags& loop);

}  // namespace rannc::frontend
