/// A serialized model, of which nodes and initializers are parsed one at a time.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Parsed whole, a model of a million nodes takes a gigabyte and as long as all that follows. Only messages with
/// weights in them are copied, without these (`data_ranges.h`): files of new exporters hold gigabytes of stack traces.
class ModelFile {
 public:
  /// `bytes` must outlive the file; `file` is for messages.
  static Result<ModelFile> read(std::string_view bytes, const std::string& file);

  /// The model without the nodes and initializers of its graph.
  const ONNX_NAMESPACE::ModelProto& head() const { return head_; }
  size_t node_count() const { return nodes_.size(); }
  size_t initializer_count() const { return initializers_.size(); }

  /// Calls `visit(const NodeProto&)`, which is gone afterwards, for each node of the graph up to the first failure.
  template <class Visit>
  Result<void> each_node(Visit&& visit) const {
    return each<ONNX_NAMESPACE::NodeProto>(nodes_, visit);
  }
  /// Likewise `visit(const TensorProto&)` for each initializer.
  template <class Visit>
  Result<void> each_initializer(Visit&& visit) const {
    return each<ONNX_NAMESPACE::TensorProto>(initializers_, visit);
  }

  /// Sorts nodes that are listed before those that they read, of the graph, of bodies and of functions. The number of
  /// lists that were out of order. Linear in the model, all of which it parses.
  Result<size_t> sort_nodes();
  /// Takes these serialized nodes, of that version of the default operator set, for those of the graph.
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
  std::deque<std::string> rewritten_;  ///< those of them that differ from the file
};

}  // namespace rannc::frontend
