/// Types of imported values beside those that ONNX's own inference finds, and those that the exporter wrote down.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::test {

/// What became of the values that a file gives a type.
struct TypeComparison {
  std::vector<std::string> faults;     ///< a line each
  std::vector<std::string> not_found;  ///< values that the graph does not have
  size_t values = 0;                   ///< values of the graph
  size_t numbers = 0;                  ///< dimensions that are a number in the file
  size_t symbolic = 0;                 ///< dimensions that are an expression in the file
};

/// Element types, ranks and dimensions of the graph's values beside what the model says of its values and outputs. A
/// number must be that number. An expression must be the same, or of the same value at three sizes of its symbols.
TypeComparison compare_types(const ONNX_NAMESPACE::ModelProto& model, const ir::Graph& graph);

/// What differs between the graph, what the model says, and what ONNX finds without that; also where less than half of
/// the nodes have a value in the graph. Empty: nothing.
std::vector<std::string> faults_of_types(const ONNX_NAMESPACE::ModelProto& model, const ir::Graph& graph);

}  // namespace rannc::test
