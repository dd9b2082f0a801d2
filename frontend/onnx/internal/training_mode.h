/// Finds what the exported program did in training mode and its file does not.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/traced_call.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// torch.onnx.export with dynamo=True writes every BatchNormalization with running statistics, also that of a model in
/// training mode, folds it into the weights of a convolution before it, and leaves out the dropout of attention. The
/// call in a node's metadata says what was asked for. With dynamo=False the dropout of attention is a node without the
/// operand that switches it on. Serves one model, whose nodes may come in any order.
class TrainingMode {
 public:
  void read(const ONNX_NAMESPACE::NodeProto& node, const std::optional<TracedCall>& call);
  /// Counts the calls, and the nodes, of which that is so.
  void note(ImportNotes& notes) const;

 private:
  struct Call {
    bool asked = false;   ///< in training mode
    bool kept = false;    ///< a node does what was asked
    bool folded = false;  ///< a product or a convolution stands for it
  };
  using Calls = std::unordered_map<size_t, Call>;  ///< by a hash of their text

  void read_call(const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call);

  Calls normalisations_, dropouts_;
  size_t switched_ = 0, not_switched_ = 0;  ///< nodes that drop, by whether they have the operand
};

}  // namespace rannc::frontend
