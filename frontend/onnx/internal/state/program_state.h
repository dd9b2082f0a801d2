/// Says which tensors of the exported program's state the nodes of a file read.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/model/traced_call.h"
#include "frontend/onnx/internal/state/listed_state.h"
#include "ir/graph/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Exporters transpose weights, reorder gates, join biases, leave out what is zero, and make one initializer of all
/// that are equal. What a node reads is told, in this order, by the call that it was made from (`%p_encoder_weight` of
/// a listed program), by the name of the stored tensor, and, where that is made up (`onnx::MatMul_12`), by the bias
/// that is added to the product or the path of the module. Serves one model, whose nodes come in order; what bodies
/// read has no name.
class ProgramState {
 public:
  explicit ProgramState(ImportNotes& notes) : notes_(notes) {}

  /// What the file lists; before the first node.
  void list(const ONNX_NAMESPACE::GraphProto& graph);
  /// A tensor that the file stores, or renames; before its readers.
  void store(const std::string& name);
  struct Reader {
    const ONNX_NAMESPACE::NodeProto& node;
    std::string label;          ///< its name in locations
    const std::string& module;  ///< that all nodes around belong to; empty: ask the node
    const std::string& prefix;  ///< of names of values
    const std::optional<TracedCall>& call;
    bool in_body = false;
  };
  /// Notes the float operands of a node that are stored, or stored ones renamed by Identity.
  void read(const ir::Graph& graph, std::span<const ValueId> operands, const Reader& reader);
  /// Adds to the graph the tensors of state that are not all of a stored tensor of their name.
  void finish(ir::Graph& graph);

 private:
  /// What an operand is of the state.
  struct Claim {
    std::string name;
    enum class Form : uint8_t {
      kSame,
      kTransposed,  ///< the stored tensor is the parameter's transpose
      kFlat,        ///< the parameter has one axis, whatever the stored tensor has
      kUnknown,
    } form = Form::kSame;
  };
  /// A parameter with a made-up name.
  struct Unnamed {
    ValueId value;
    std::string stored;  ///< under which name its readings are
    size_t reading;
    std::string product, bias;  ///< names of values; of factors and terms none
    std::string what;           ///< weight or bias
    Claim::Form form;
  };
  /// A stored tensor read where a module has a tensor of another name.
  struct Alias {
    ValueId value;
    std::string module, what;
  };

  const std::string* target(const TracedCall& call, size_t argument) const;
  std::vector<std::optional<Claim>> claims(const ir::Graph& graph, std::span<const ValueId> operands,
                                           const Reader& reader) const;
  bool reads_view(const std::string& name, const std::vector<std::optional<Claim>>& told, const Reader& reader) const;
  std::optional<Claim> claim_by_place(const ir::Graph& graph, ValueId value, size_t operand,
                                      const Reader& reader) const;
  void note_claim(const ir::Graph& graph, ValueId value, const Claim& claim, ir::Reading& reading);
  bool note_recurrent(const ir::Graph& graph, ValueId value, const Reader& reader, ir::Reading& reading);
  void note_dropped_bias(std::span<const ValueId> operands, const Reader& reader);
  void note_alias(const ir::Graph& graph, ValueId value, const Reader& reader, const ir::Reading& reading);
  void note_unnamed(const ir::Graph& graph, ValueId value, const Reader& reader, const std::string& stored);
  std::string module_at(const std::string& path) const;
  std::string module_called(const std::string& path) const;
  std::string name_by_bias(const ir::Graph& graph, const Unnamed& unnamed, const std::string& module) const;
  void name_by_place(const ir::Graph& graph);
  void add_aliases(const ir::Graph& graph);
  std::set<std::string> modules_reading_unknown(const ir::Graph& graph) const;
  void name_looked_up(const ir::Graph& graph);
  void name_unread(const ir::Graph& graph);
  void hold(const ir::Graph& graph, ValueId value, const Claim& claim, bool derived);

  ImportNotes& notes_;
  ListedState listed_;
  std::map<std::string, ir::StateTensor> held_;
  std::set<std::string> told_;  ///< tensors of state that a call names
  std::vector<Unnamed> unnamed_;
  std::vector<Alias> aliases_;
  std::set<std::string> modules_, larger_;  ///< all paths, and those that do more than multiply or look up
  std::set<std::string> owners_;            ///< modules that stored tensors are named after, and those around them
  std::map<std::string, std::map<ValueId, size_t>> layers_;  ///< of recurrent modules, by their weights
};

}  // namespace rannc::frontend
