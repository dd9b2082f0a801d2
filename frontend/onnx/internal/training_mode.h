/// Finds what the exported program did in training mode and its file does not.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/traced_call.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// torch.onnx.export with dynamo=True writes every BatchNormalization with running statistics, also that of a model in
/// training mode, folds it into the weights of a convolution before it, and leaves out the dropout of attention. The
/// call in a node's metadata says what was asked for. Serves one model, whose nodes may come in any order.
class TrainingMode {
 public:
  void read(const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call);
  /// Counts the calls of which that is so.
  void note(ImportNotes& notes) const;

 private:
  struct Call {
    bool asked = false;   ///< in training mode
    bool kept = false;    ///< a node does what was asked
    bool folded = false;  ///< a product or a convolution stands for it
  };
  using Calls = std::unordered_map<size_t, Call>;  ///< by a hash of their text

  Calls normalisations_, dropouts_;
};

}  // namespace rannc::frontend
