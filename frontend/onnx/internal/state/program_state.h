/// Determines which state tensors of the exported program the nodes of a file read.
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

/// Exporters transpose weights, reorder gates, join biases, omit zero tensors and merge equal initializers. The tensor
/// that a node reads is identified, in this order, by
/// 1. the call that the node was created from (`%p_encoder_weight` of a program with a signature),
/// 2. the name of the stored tensor,
/// 3. if that name is generated (`onnx::MatMul_12`), the bias added to the product or the path of the module.
/// One object serves one model, whose nodes must be passed in order. Tensors read by bodies have no names.
class ProgramState {
 public:
  explicit ProgramState(ImportNotes& notes) : notes_(notes) {}

  /// Reads the file's list of state tensors. Call it before the first node.
  void list(const ONNX_NAMESPACE::GraphProto& graph);
  /// Registers a tensor that the file stores or renames. Call it before its readers.
  void store(const std::string& name);
  struct Reader {
    const ONNX_NAMESPACE::NodeProto& node;
    std::string label;          ///< its name in locations
    const std::string& module;  ///< module of all surrounding nodes; empty: that of the node
    const std::string& prefix;  ///< prefix of value names
    const std::optional<TracedCall>& call;
    bool in_body = false;
  };
  /// Records the float operands of a node that are stored tensors, possibly renamed by Identity.
  void read(const ir::Graph& graph, std::span<const ValueId> operands, const Reader& reader);
  /// Adds to the graph the state tensors that differ from the stored tensor of their name.
  void finish(ir::Graph& graph);

 private:
  /// The state tensor that an operand is identified with.
  struct Claim {
    std::string name;
    enum class Form : uint8_t {
      kSame,
      kTransposed,  ///< the stored tensor is the parameter's transpose
      kFlat,        ///< the parameter has one axis, whatever the stored tensor has
      kUnknown,
    } form = Form::kSame;
  };
  /// A parameter with a generated name.
  struct Unnamed {
    ValueId value;
    std::string stored;  ///< name under which its readings are recorded
    size_t reading;
    std::string product, bias;  ///< value names; empty for factors and terms
    std::string what;           ///< weight or bias
    Claim::Form form;
  };
  /// A stored tensor that is read in place of a module's tensor with another name.
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
  std::set<std::string> told_;  ///< state tensors that a call names
  std::vector<Unnamed> unnamed_;
  std::vector<Alias> aliases_;
  std::set<std::string> modules_, larger_;  ///< all paths, and paths of modules that do more than multiply or look up
  std::set<std::string> owners_;            ///< modules in the names of stored tensors, with their enclosing modules
  std::map<std::string, std::map<ValueId, size_t>> layers_;  ///< layers of recurrent modules, by their weights
};

}  // namespace rannc::frontend
