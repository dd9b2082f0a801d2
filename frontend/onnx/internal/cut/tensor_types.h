/// Determines the types of the tensors of a model's graph.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "frontend/onnx/internal/cut/cut_graph.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Types by tensor name, from the file and from ONNX's shape inference. Symbolic sizes are those of the file. A tensor
/// without an element type or rank is absent.
class TensorTypes {
 public:
  /// `imported` is the imported graph, after any passes. It adds ranks that ONNX cannot infer.
  static Result<TensorTypes> of(const ModelParts& parts, const CutGraph& graph, const ir::Graph& imported);
  const ONNX_NAMESPACE::ValueInfoProto* find(const std::string& name) const;
  /// An estimate of the tensor's bytes, at least 1. Each unknown size counts as 32.
  int64_t bytes(const std::string& name) const;

 private:
  std::unordered_map<std::string, ONNX_NAMESPACE::ValueInfoProto> types_;
};

}  // namespace rannc::frontend
