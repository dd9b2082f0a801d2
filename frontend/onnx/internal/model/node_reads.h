/// What each node of a model reads, from results back to operands.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// Names that nodes of the graph read, those of their bodies included, some of which these make themselves. Linear in
/// the model.
class NodeReads {
 public:
  /// Where each of `values` is that number, an If whose condition follows from these reads nothing for the branch that
  /// is not taken. Conditions are followed through Identity, Cast, Not and changes of shape.
  static Result<NodeReads> of(const ModelFile& model, const std::map<std::string, double>& values = {});
  /// By node, whether one of the names depends on it.
  std::vector<bool> behind(std::vector<std::string_view> names) const;
  const std::vector<std::string>& of_node(size_t node) const { return reads_[node]; }

 private:
  explicit NodeReads(const std::map<std::string, double>& values) : known_(values) {}
  void note_known(const ONNX_NAMESPACE::NodeProto& node);
  void collect(const ONNX_NAMESPACE::NodeProto& node, std::vector<std::string>& into, int depth);

  std::map<std::string, double> known_;
  std::vector<std::vector<std::string>> reads_;          // by node
  std::unordered_multimap<std::string, size_t> makers_;  // by the name of a result: an error where there are several
};

}  // namespace rannc::frontend
