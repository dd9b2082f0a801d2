/// Finds training behavior of the exported program that its file lost.
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

/// torch.onnx.export with dynamo=True writes every BatchNormalization with running statistics, even for a model in
/// training mode. It folds BatchNormalization into the weights of a preceding convolution and omits the dropout of
/// attention. The call in a node's metadata contains the original request. With dynamo=False the dropout of attention
/// is a node without the operand that enables it, and folding can only be guessed from names that the exporter
/// generated. A model in evaluation mode has a copy in place of each dropout, of which its file has at most an Identity
/// node; calls that read the copy still name it. One object serves one model, whose nodes must be passed in order.
class TrainingMode {
 public:
  /// A node of the model's graph, or of a function that it calls.
  struct Place {
    const ir::Graph& graph;
    const ONNX_NAMESPACE::NodeProto& node;
    int opset = 0;
    std::span<const ValueId> operands;
    std::string_view result;  ///< name of the first result; empty: none
  };
  void read(const Place& place, const std::optional<TracedCall>& call);
  /// Records the training behavior that can be restored, and counts the calls and nodes where it cannot.
  void note(const std::string& file, ImportNotes& notes) const;

 private:
  struct Normalisation {
    bool requested = false;  ///< training mode was requested
    bool kept = false;       ///< a node does what was requested
    bool folded = false;     ///< it was folded into a product or a convolution
    std::string module, result;
  };
  struct Dropout {
    bool kept = false;      ///< the file has a node for it
    bool weighted = false;  ///< for attention: its softmax has been read
    double drop = 0;
    std::string value;  ///< value whose elements it drops; empty: unknown
  };
  template <class Call>
  using Calls = std::unordered_map<size_t, Call>;  ///< by hash of their text

  void read_call(const Place& place, const TracedCall& call);
  void read_dropout(const Place& place);
  void read_copies(const Place& place, const TracedCall& call);
  void note_normalisations(const std::string& file, ImportNotes& notes) const;
  void note_dropouts(const std::string& file, ImportNotes& notes) const;

  Calls<Normalisation> normalisations_;
  Calls<Dropout> dropouts_;
  std::map<std::string, double> off_;     ///< ratios of disabled dropout nodes, by result
  size_t on_ = 0;                         ///< number of enabled dropout nodes
  std::set<std::string> copies_;          ///< copies in the exported program that may have been dropouts
  std::set<std::string> copied_to_;       ///< modules that read them
  std::set<std::string> folded_weights_;  ///< convolution weights that have, like their biases, generated names
};

}  // namespace rannc::frontend
