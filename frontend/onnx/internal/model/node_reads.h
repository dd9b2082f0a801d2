/// Determines which values the nodes of a model read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// Names that each node of the graph reads. Includes the reads of its bodies, some of which the bodies produce
/// themselves. Linear in the model.
class NodeReads {
 public:
  /// If the condition of an If follows from the fixed numbers in `values`, reads of the other branch are omitted.
  /// Conditions are followed through Identity, Cast, Not and changes of shape.
  static Result<NodeReads> of(const ModelFile& model, const std::map<std::string, double>& values = {});
  /// Returns per node whether any of `names` depends on it.
  std::vector<bool> behind(std::vector<std::string_view> names) const;
  const std::vector<std::string>& of_node(size_t node) const { return reads_[node]; }

 private:
  explicit NodeReads(const std::map<std::string, double>& values) : known_(values) {}
  void note_known(const ONNX_NAMESPACE::NodeProto& node);
  void collect(const ONNX_NAMESPACE::NodeProto& node, std::vector<std::string>& into, int depth);

  std::map<std::string, double> known_;
  std::vector<std::vector<std::string>> reads_;          // by node
  std::unordered_multimap<std::string, size_t> makers_;  // by result name; several producers are an error
};

}  // namespace rannc::frontend
