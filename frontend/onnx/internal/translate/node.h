/// One ONNX node as its translator sees it.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/internal/task_writer.h"
#include "frontend/onnx/internal/model/traced_call.h"
#include "frontend/onnx/internal/translate/tensor.h"
#include "ir/graph/graph.h"
#include "ir/op/op.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

class Growth;

/// What a name stands for that is no tensor: a sequence, whose length is known, or an optional without anything in it.
/// (An optional with something in it is that.)
struct List {
  std::vector<ValueId> elements;
  bool absent = false;
  bool joined = false;  ///< its elements, which may be as many as there are samples, lie in the one on axis 0
};

/// Operands, attributes and opset of a node that the checker found to fit its schema, and the graph its tasks go to.
class Node : public TaskWriter {
 public:
  /// Where constants of attributes are read from, and how far what is made of the file has grown.
  struct Source {
    std::string model;
    ExternalData* external;
    const Growth* growth;
  };
  struct Wiring {
    std::vector<ValueId> operands;          ///< invalid: absent, or a list
    std::vector<std::string> output_names;  ///< empty: not wanted
    std::map<size_t, List> lists;           ///< by operand
    std::optional<TracedCall> traced;       ///< what the node was made from
  };
  Node(ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& proto, int opset, Location where, Wiring wiring,
       const Source& source);

  int opset() const { return opset_; }
  const std::string& op() const { return proto_.op_type(); }

  // --- operands
  size_t input_count() const { return operands_.size(); }
  bool has(size_t index) const { return index < operands_.size() && operands_[index].valid(); }
  ValueId in(size_t index);              ///< an error where absent
  ValueId optional(size_t index) const;  ///< invalid where absent
  /// Of an operand that is no tensor; null where it is one, or absent.
  const List* list(size_t index) const;
  bool has_lists() const { return !lists_.empty(); }

  // --- what ONNX does not say, and the metadata of a node may
  /// The call of the exported program that the node was made from.
  const std::optional<TracedCall>& traced() const { return traced_; }
  /// Whether bounds take no gradient: of relu6 and hardtanh, where clamp's do.
  bool traced_strict_bounds();
  /// Row of a table that takes no gradient.
  std::optional<int64_t> traced_padding_index(const ir::Shape& table);
  /// Whether an extreme over an axis is one element, the first of equal ones, rather than shared by them.
  bool traced_pick();
  /// Of a cross entropy, whose node has no place for it.
  double traced_label_smoothing();
  /// What was recovered so.
  const std::vector<Note>& remarks() const { return remarks_; }

  // --- attributes
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  using TaskWriter::integers;
  using TaskWriter::number;
  using TaskWriter::numbers;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;   ///< empty where absent
  std::vector<double> numbers(std::string_view name) const;     ///< empty where absent
  std::vector<std::string> texts(std::string_view name) const;  ///< empty where absent
  /// A tensor attribute; an error where it is absent or cannot be read.
  std::optional<Tensor> tensor(std::string_view name);
  /// Axes of an operator that took them from attribute `axes` and takes them from operand `index` since opset `since`.
  /// Nothing where neither is given; an error where the operand is not known.
  std::optional<std::vector<int64_t>> axes(size_t index, int since);

  // --- outputs
  size_t output_count() const { return names_.size(); }
  bool wants(size_t output) const { return output < names_.size() && !names_[output].empty(); }
  /// Outputs as bound; invalid where the translator has no value for one.
  const std::vector<ValueId>& outputs() const { return outputs_; }
  /// Outputs that are lists.
  const std::map<size_t, List>& output_lists() const { return output_lists_; }
  /// Whether `constant` made the first output.
  bool is_literal() const { return literal_; }
  const std::string& output_name(size_t output) const { return names_[output]; }

  // --- building
  /// A task of one output, which is the node's first.
  void result(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes = {});
  void result(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {});
  /// A task whose outputs are all of the node's, and more where the operator has more.
  void results(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes = {});
  void results(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {});
  /// A task whose first output is the node's first; the rest, which it returns, are that many auxiliary results of the
  /// operator.
  std::vector<ValueId> result_with_auxiliary(std::string_view op, std::span<const ValueId> operands,
                                             ir::Attributes attributes, size_t auxiliary);
  /// A constant as the node's first output.
  void constant(Tensor tensor);
  /// A constant of the translator's own, of that shape: a number of the model's code, never a tensor of its state.
  /// Floats are kept in double precision and cast, so that a model of single precision can be run in double.
  ValueId table(std::string_view name, ir::DType dtype, const std::vector<int64_t>& shape,
                std::span<const double> values);
  ValueId table(std::string_view name, ir::DType dtype, const std::vector<int64_t>& shape,
                std::span<const int64_t> values);
  const std::vector<ValueId>& tables() const { return tables_; }
  /// Whether the file may become a table of that many numbers more, beside their copy while it is made; an error where
  /// not.
  bool has_room_for_table(uint64_t numbers);
  /// Says that a value stands in a weight's place, which no core operator has.
  void note_weight(ValueId value);
  /// The stored tensors that such values are made of.
  const std::vector<ValueId>& weights() const { return weights_; }
  /// An identity of a value as the node's output, so that it has the output's name.
  void result_at(size_t output, ValueId value);
  /// The value as the node's output, under the name it has.
  void pass(size_t output, ValueId value) { bind(output, value); }
  void pass(size_t output, List list);
  /// Integers as the node's first output.
  void integers(std::span<const int64_t> values, ir::DType dtype, const std::vector<int64_t>& shape);

  /// Hands the node to ONNX's own definition by other operators; before anything is emitted.
  void use_definition() { by_definition_ = true; }
  bool by_definition() const { return by_definition_; }
  /// The same node where it emits into a body of a task: there it has neither operands nor outputs.
  Node inside(ir::Graph& body) const;
  /// Something that users should know of the node; nodes of which the same is said are counted.
  void remark(std::string_view text) { remark_ = text; }
  const std::string& remark() const { return remark_; }
  /// A number that no other node of the graph has.
  int64_t ordinal() const { return graph().task_count(); }

 private:
  void bind(size_t output, ValueId value);
  const ONNX_NAMESPACE::AttributeProto* find(std::string_view name) const;

  const ONNX_NAMESPACE::NodeProto& proto_;
  int opset_;
  std::vector<ValueId> operands_;
  std::vector<std::string> names_;
  std::vector<ValueId> outputs_, tables_, weights_;
  std::map<size_t, List> lists_, output_lists_;
  const Source& source_;
  std::optional<TracedCall> traced_;
  std::vector<Note> remarks_;
  bool by_definition_ = false;
  bool literal_ = false;
  std::string remark_;
};

}  // namespace rannc::frontend
