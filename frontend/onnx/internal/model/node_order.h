/// Brings nodes that a file lists out of order into an order in which they can run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Names that a node, bodies included, reads and makes.
struct NodeNames {
  std::vector<std::string> reads, makes;
};
NodeNames names_of(const ONNX_NAMESPACE::NodeProto& node);

/// Places of nodes, each behind those that make what it reads; otherwise in the given order. Nodes that read each other
/// in a circle stay at the end. Linear, but for a logarithm.
std::vector<size_t> run_order(const std::vector<NodeNames>& nodes);

/// Sorts the nodes of all bodies of a node. The number of bodies that were out of order.
size_t sort_bodies(ONNX_NAMESPACE::NodeProto& node);
/// The same of a function's own nodes and their bodies.
size_t sort_nodes(ONNX_NAMESPACE::FunctionProto& function);

}  // namespace rannc::frontend
