/// A serialized model whose nodes and initializers are parsed one at a time.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Parsing a model of a million nodes as a whole takes a gigabyte, and as long as the rest of the import. Only messages
/// that contain weights are copied, without the weights (`data_ranges.h`), because files of new exporters contain
/// gigabytes of stack traces.
class ModelFile {
 public:
  /// `bytes` must outlive the result. `file` is for messages.
  static Result<ModelFile> read(std::string_view bytes, const std::string& file);

  /// The model without the nodes and initializers of its graph.
  const ONNX_NAMESPACE::ModelProto& head() const { return head_; }
  size_t node_count() const { return nodes_.size(); }
  size_t initializer_count() const { return initializers_.size(); }

  /// Calls `visit(const NodeProto&)` for each node of the graph until the first failure. The node is valid only during
  /// the call.
  template <class Visit>
  Result<void> each_node(Visit&& visit) const {
    return each<ONNX_NAMESPACE::NodeProto>(nodes_, visit);
  }
  /// Likewise `visit(const TensorProto&)` for each initializer.
  template <class Visit>
  Result<void> each_initializer(Visit&& visit) const {
    return each<ONNX_NAMESPACE::TensorProto>(initializers_, visit);
  }

  /// Sorts the nodes of the graph, bodies and functions so that producers come before readers. Returns the number of
  /// lists that were out of order. Parses the whole model in linear time.
  Result<size_t> sort_nodes();
  /// Replaces the graph's nodes by these serialized ones and sets the version of the default operator set.
  void renew(int version, std::vector<std::string> nodes);

 private:
  template <class Proto, class Visit>
  Result<void> each(const std::vector<std::string_view>& parts, Visit&& visit) const {
    Proto message;
    for (const std::string_view part : parts) {
      RANNC_TRY(parse(part, message));
      RANNC_TRY(visit(static_cast<const Proto&>(message)));
    }
    return {};
  }
  Result<void> parse(std::string_view part, google::protobuf::MessageLite& message) const;

  std::string file_;
  ONNX_NAMESPACE::ModelProto head_;
  std::vector<std::string_view> nodes_, initializers_;
  std::deque<std::string> rewritten_;  ///< messages that differ from the file
};

}  // namespace rannc::frontend
