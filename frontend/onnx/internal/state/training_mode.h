/// Finds what the exported program did in training and its file does not.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/model/traced_call.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// torch.onnx.export with dynamo=True writes every BatchNormalization with running statistics, also that of a model in
/// training mode, folds it into the weights of a convolution before it, and leaves out the dropout of attention. The
/// call in a node's metadata says what was asked for. With dynamo=False the dropout of attention is a node without the
/// operand that switches it on, and what was folded can only be guessed from names that the exporter made up. Serves
/// one model, whose nodes come in their order.
class TrainingMode {
 public:
  /// A node of the model's graph, or of a function that it calls.
  struct Place {
    const ir::Graph& graph;
    const ONNX_NAMESPACE::NodeProto& node;
    int opset = 0;
    std::span<const ValueId> operands;
    std::string_view result;  ///< name of its first; empty: it has none
  };
  void read(const Place& place, const std::optional<TracedCall>& call);
  /// Notes what training can be brought back, and counts the calls and nodes of which it cannot.
  void note(const std::string& file, ImportNotes& notes) const;

 private:
  struct Normalisation {
    bool asked = false;   ///< in training mode
    bool kept = false;    ///< a node does what was asked
    bool folded = false;  ///< a product or a convolution stands for it
    std::string module, result;
  };
  struct Dropout {
    bool kept = false;      ///< a node stands for it
    bool weighted = false;  ///< of attention: its softmax has come
    double drop = 0;
    std::string value;  ///< whose elements it drops; empty: none is known
  };
  template <class Call>
  using Calls = std::unordered_map<size_t, Call>;  ///< by a hash of their text

  void read_call(const Place& place, const TracedCall& call);
  void read_dropout(const Place& place);
  void note_normalisations(const std::string& file, ImportNotes& notes) const;
  void note_dropouts(ImportNotes& notes) const;

  Calls<Normalisation> normalisations_;
  Calls<Dropout> dropouts_;
  std::map<std::string, double> off_;  ///< nodes that drop nothing: by result what they would drop
  size_t on_ = 0;                      ///< nodes that drop
  std::set<std::string> made_up_;      ///< weights of convolutions whose names, and biases', the exporter made up
};

}  // namespace rannc::frontend
