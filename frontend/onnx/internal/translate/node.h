/// A translator's interface to one ONNX node.
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

/// A value that is no tensor: a sequence of known length or an empty optional. (A non-empty optional is its content.)
struct List {
  std::vector<ValueId> elements;
  bool absent = false;
  bool joined = false;  ///< the only value has the elements on its axis 0, for instance one per sample
};

/// Property of u64 operands that an operation preserves in i64. LibTorch does not compute with unsigned integers of
/// more than one byte, so they are cast to i64. That is exact for 16 and 32 bits. For 64 bits it preserves either sums
/// and products, which wrap alike, or the order, if the sign bit is flipped before.
enum class Keeps { kSums, kOrder };

inline bool is_wide_unsigned(ir::DType dtype) {
  return dtype == ir::DType::kU16 || dtype == ir::DType::kU32 || dtype == ir::DType::kU64;
}

/// A node that passed ONNX's checker, with the graph that its tasks are added to.
class Node : public TaskWriter {
 public:
  /// Source of constants in attributes, with the current growth of the graph.
  struct Source {
    std::string model;
    ExternalData* external;
    const Growth* growth;
  };
  struct Wiring {
    std::vector<ValueId> operands;          ///< invalid: absent or a list
    std::vector<std::string> output_names;  ///< empty: unused output
    std::map<size_t, List> lists;           ///< by operand
    std::optional<TracedCall> traced;       ///< call that the node was created from
  };
  Node(ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& proto, int opset, Location where, Wiring wiring,
       const Source& source);

  int opset() const { return opset_; }
  const std::string& op() const { return proto_.op_type(); }

  // --- operands
  size_t input_count() const { return operands_.size(); }
  bool has(size_t index) const { return index < operands_.size() && operands_[index].valid(); }
  ValueId in(size_t index);              ///< fails if absent
  ValueId optional(size_t index) const;  ///< invalid if absent
  /// A bound of a range, as an attribute: an integer, a size, or a fraction. A whole float counts as an integer, as a
  /// size is one after a Cast to float too. Nothing if the value does not follow from sizes and constants.
  std::optional<ir::Attribute> bound(ValueId value) const;
  /// An operand that is a list. Null if it is a tensor or absent.
  const List* list(size_t index) const;

  // --- facts that ONNX cannot express but the metadata of a node may contain
  /// The call of the exported program that the node was created from.
  const std::optional<TracedCall>& traced() const { return traced_; }
  /// Whether elements at the bounds get no gradient, as in relu6 and hardtanh but not in clamp.
  bool traced_strict_bounds();
  /// Row of an embedding table that gets no gradient.
  std::optional<int64_t> traced_padding_index(const ir::Shape& table);
  /// Whether the gradient of an extreme goes to the first of equal elements instead of being shared by them.
  bool traced_pick();
  /// Label smoothing of a cross entropy, which ONNX cannot express.
  double traced_label_smoothing();
  /// Remarks about what was recovered in this way.
  const std::vector<Note>& remarks() const { return remarks_; }

  // --- attributes
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  using TaskWriter::integers;
  using TaskWriter::number;
  using TaskWriter::numbers;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;   ///< empty if absent
  std::vector<double> numbers(std::string_view name) const;     ///< empty if absent
  std::vector<std::string> texts(std::string_view name) const;  ///< empty if absent
  /// A tensor attribute. Fails if it is absent or cannot be read.
  std::optional<Tensor> tensor(std::string_view name);
  /// Axes from operand `index` since opset `since`, and from attribute `axes` before. Nothing if there are none. Fails
  /// if the contents of the operand are unknown.
  std::optional<std::vector<int64_t>> axes(size_t index, int since);

  // --- outputs
  size_t output_count() const { return names_.size(); }
  bool wants(size_t output) const { return output < names_.size() && !names_[output].empty(); }
  /// Values bound to the outputs. Invalid if the translator bound none.
  const std::vector<ValueId>& outputs() const { return outputs_; }
  /// Outputs that are lists.
  const std::map<size_t, List>& output_lists() const { return output_lists_; }
  /// Whether the first output was created by `constant`.
  bool is_literal() const { return literal_; }

  // --- building
  /// Adds a task with one output, which becomes the node's first.
  void result(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes = {});
  void result(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {});
  /// Adds a task whose outputs become those of the node, in order. The operator may have more.
  void results(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes = {});
  void results(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {});
  /// Adds a task whose first output becomes the node's first. Returns its `auxiliary` other results.
  std::vector<ValueId> result_with_auxiliary(std::string_view op, std::span<const ValueId> operands,
                                             ir::Attributes attributes, size_t auxiliary);
  /// Makes a constant the node's first output.
  void constant(Tensor tensor);
  /// Adds a constant created by the translator. It is a literal of the model's code, never a tensor of its state.
  /// Floats are stored in double precision and cast, so that a single-precision model can be run in double precision.
  ValueId table(std::string_view name, ir::DType dtype, const std::vector<int64_t>& shape,
                std::span<const double> values);
  ValueId table(std::string_view name, ir::DType dtype, const std::vector<int64_t>& shape,
                std::span<const int64_t> values);
  const std::vector<ValueId>& tables() const { return tables_; }
  /// Whether the growth limit allows a table of `numbers` elements and its temporary copy. Otherwise the node fails.
  bool has_room_for_table(uint64_t numbers);
  /// Translates the node in float32 if its floats have 16 bits, and rounds its only output.
  void round_once(void (*translate)(Node&));
  /// Translates the node in i64 if it has unsigned integers of more than one byte, and casts its first output back.
  /// Fails for u64 if the node depends on their order.
  void compute_in_i64(void (*translate)(Node&), Keeps keeps);
  /// Records that a value is used as a weight although no core operator has it as a weight operand.
  void note_weight(ValueId value);
  /// The stored tensors that such values consist of.
  const std::vector<ValueId>& weights() const { return weights_; }
  /// Makes an identity of a value the node's output, so that it has the output's name.
  void result_at(size_t output, ValueId value);
  /// Makes a value the node's output under its existing name.
  void pass(size_t output, ValueId value) { bind(output, value); }
  void pass(size_t output, List list);
  /// Makes an integer constant the node's first output.
  void integers(std::span<const int64_t> values, ir::DType dtype, const std::vector<int64_t>& shape);

  /// Expands the node by ONNX's own definition with other operators. Call it before emitting anything.
  void use_definition() { by_definition_ = true; }
  bool by_definition() const { return by_definition_; }
  /// Returns a copy of the node, without operands and outputs, that emits into the body of a task.
  Node inside(ir::Graph& body) const;
  /// Sets a remark for users. Nodes with the same remark are counted.
  void remark(std::string_view text) { remark_ = text; }
  const std::string& remark() const { return remark_; }

 private:
  /// Casts all operands to the types that `wide` maps theirs to, and the first output back.
  void compute_in(ir::DType (*wide)(ir::DType), void (*translate)(Node&));
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

/// Translates an operator of which ONNX Runtime rounds the result alone.
template <void (*translate)(Node&)>
void rounded_once(Node& node) {
  node.round_once(translate);
}

/// Translates an operator in a type with which LibTorch computes.
template <void (*translate)(Node&), Keeps keeps = Keeps::kSums>
void in_i64(Node& node) {
  node.compute_in_i64(translate, keeps);
}

}  // namespace rannc::frontend
