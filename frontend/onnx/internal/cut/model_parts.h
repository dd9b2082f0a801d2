/// Splits a serialized model into parts that can be copied verbatim.
#pragma once

#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// The parts of a model as they stand in its file.
struct ModelParts {
  std::string file;  ///< for messages
  /// The model without graph, functions and training information.
  std::string head;
  std::vector<std::string_view> functions, nodes, initializers;
  ONNX_NAMESPACE::GraphProto graph;  ///< without nodes and initializers

  /// `bytes` must outlive the result. Errors: not a model, sparse initializers.
  static Result<ModelParts> read(std::string_view bytes, const std::string& file);

  /// Parses one part, with its weights.
  template <class Message>
  Result<Message> parsed(std::string_view part) const {
    Message message;
    if (part.size() <= static_cast<size_t>(INT_MAX) &&
        message.ParseFromArray(part.data(), static_cast<int>(part.size())))
      return message;
    return error({file, 0, 0, {}}, "not an ONNX model: Protocol Buffers cannot parse it");
  }
};

// Field numbers of onnx.proto, which never change.
inline constexpr uint32_t kGraphOfModel = 7, kTrainingOfModel = 20, kFunctionOfModel = 25;
inline constexpr uint32_t kNodeOfGraph = 1, kInitializerOfGraph = 5;

}  // namespace rannc::frontend
