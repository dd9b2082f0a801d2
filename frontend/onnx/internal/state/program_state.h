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

/// Whether a value has one element.
inline bool is_single(const ir::Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  return shape && ir::element_count(*shape) == ir::Dim(1);
}

/// A value of the file that the program reads as two values of the same operator. They are equal now, but need not stay
/// equal: one may be detached, or their parameters may have had equal values when the exporter merged them.
struct MergedValue {
  std::string lost, kept;  ///< names in the program; empty for intermediate values of calls
  std::string value;       ///< in the graph
  std::string module;      ///< of the reader of `lost`
};

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
  /// Whether a call names a listed tensor among its arguments.
  bool names(const TracedCall& call, std::string_view tensor) const;
  const std::string* omitted_bias(std::span<const ValueId> operands, const ONNX_NAMESPACE::NodeProto& node,
                                  const TracedCall& call) const;
  /// Whether a name in calls is that of a listed tensor or of an input of the program.
  bool is_input(std::string_view name) const { return listed_.targets.contains(name) || listed_.inputs.contains(name); }
  /// Outputs of the program, by their names in calls.
  const std::vector<std::string>& outputs() const { return listed_.outputs; }
  /// Adds to the graph the state tensors that differ from the stored tensor of their name. `omitted`: results of
  /// products with 1 or sums with 0 that the file lacks.
  void finish(ir::Graph& graph, const std::vector<MergedValue>& merged, const std::set<std::string>& omitted);

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
  /// A state tensor that is read in place of a module's tensor with another name.
  struct Alias {
    std::string state, module, what;
  };
  /// A reading of a listed parameter, or of another one of equal values that the exporter merged with it: no call names
  /// what is read.
  struct Unclear {
    std::string stored;
    size_t reading;
  };

  void note_named(const std::string& name) { named_by_calls_.try_emplace(name, named_by_calls_.size()); }
  const std::string* target(const TracedCall& call, size_t argument) const;
  std::vector<std::optional<Claim>> claims(const ir::Graph& graph, std::span<const ValueId> operands,
                                           const Reader& reader) const;
  bool reads_numbers(const ir::Graph& graph, ValueId value, size_t operand, const Reader& reader) const;
  bool reads_view(const std::string& name, const std::vector<std::optional<Claim>>& claimed,
                  const Reader& reader) const;
  std::optional<Claim> claim_by_place(const ir::Graph& graph, ValueId value, size_t operand,
                                      const Reader& reader) const;
  void note_claim(const ir::Graph& graph, ValueId value, const Claim& claim, ir::Reading& reading);
  void note_in_body(const std::string& name, const std::optional<Claim>& claim, ir::Reading& reading);
  bool note_recurrent(const ir::Graph& graph, ValueId value, const Reader& reader, ir::Reading& reading);
  void note_alias(const ir::Graph& graph, ValueId value, const Reader& reader, const ir::Reading& reading);
  void note_unnamed(const ir::Graph& graph, ValueId value, const Reader& reader, const std::string& stored);
  std::string module_at(const std::string& path) const;
  std::string module_called(const std::string& path) const;
  std::string name_by_bias(const ir::Graph& graph, const Unnamed& unnamed, const std::string& module) const;
  void name_by_place(const ir::Graph& graph);
  void add_aliases(const ir::Graph& graph);
  std::set<std::string> modules_reading_unknown(const ir::Graph& graph) const;
  std::set<std::string> unread(const ir::Graph& graph) const;
  std::set<std::string> modules_behind(const ir::Graph& graph, const Unclear& unclear) const;
  void name_unclear(const ir::Graph& graph);
  bool separate(const ir::Graph& graph, const MergedValue& merged);
  void note_merged(const ir::Graph& graph, const std::vector<MergedValue>& merged);
  void name_merged(const ir::Graph& graph);
  std::set<std::string> steps_of(const std::string& name) const;
  bool may_be_all_rows(const std::string& name) const;
  void name_looked_up(const ir::Graph& graph);
  bool is_reshaped_vector(const ir::Graph& graph, const std::string& name) const;
  void name_reshaped(const ir::Graph& graph);
  bool is_of_unused_layer(const std::string& name, const std::set<std::string>& unread) const;
  void note_merged_norm(const ir::Graph& graph, const MergedValue& merged, const std::set<std::string>& open);
  void name_unread(const ir::Graph& graph);
  void note_omitted(const ir::Graph& graph, const std::set<std::string>& omitted);
  std::optional<ir::StateTensor> tensor_of(const ir::Graph& graph, const std::string& name) const;
  bool name_also(const ir::Graph& graph, const std::string& name, const std::string& other);
  void hold(const ir::Graph& graph, ValueId value, const Claim& claim, bool derived);

  ImportNotes& notes_;
  ListedState listed_;
  std::map<std::string, ir::StateTensor> held_;
  std::map<std::string, size_t>
      named_by_calls_;          ///< state tensors that a call names, with their places in the order of readers
  std::set<std::string> tied_;  ///< those that modules read in place of their own
  std::vector<Unnamed> unnamed_;
  std::vector<Alias> aliases_;
  std::vector<Unclear> unclear_;
  std::set<std::string> modules_, larger_;  ///< all paths, and paths of modules that do more than multiply or look up
  std::set<std::string> owners_;            ///< modules in the names of stored tensors, with their enclosing modules
  std::map<std::string, std::map<ValueId, size_t>> layers_;  ///< layers of recurrent modules, by their weights
};

}  // namespace rannc::frontend
