/// Sorts nodes into an order in which they can run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Names that a node reads and produces, including its bodies.
struct NodeNames {
  std::vector<std::string> reads, makes;
};
NodeNames names_of(const ONNX_NAMESPACE::NodeProto& node);

/// Returns node indices in a stable order with producers before readers. Nodes in a cycle come last. O(n log n).
std::vector<size_t> run_order(const std::vector<NodeNames>& nodes);

/// Sorts the nodes of all bodies of a node. Returns the number of bodies that were out of order.
size_t sort_bodies(ONNX_NAMESPACE::NodeProto& node);
/// Likewise for a function's nodes and their bodies.
size_t sort_nodes(ONNX_NAMESPACE::FunctionProto& function);

}  // namespace rannc::frontend
