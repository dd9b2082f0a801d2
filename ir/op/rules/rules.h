/// Helpers of type rules, work rules and lowering rules that the operator families share. Private to ir/op.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "ir/dim/dim_bounds.h"
#include "ir/graph/byte_count.h"
#include "ir/op/op.h"

namespace rannc::ir::ops {

using Types = std::vector<ValueType>;
using InferRule = Result<Types> (*)(const OpCall&);
using WorkRule = Work (*)(const OpCall&, std::span<const ValueType>);
using LowerRule = Result<aten::Lowering> (*)(const LowerCall&);
using FoldRule = std::vector<int64_t> (*)(FoldCall&);
using IntervalRule = std::optional<IndexRange> (*)(const IntervalCall&);
using GradientRule = bool (*)(GradientCall&);

/// The operator families. Each function returns the declarations of all operators of its family.
std::vector<OpInfo> elementwise_ops();
std::vector<OpInfo> function_ops();
std::vector<OpInfo> bit_ops();
std::vector<OpInfo> shape_ops();
std::vector<OpInfo> slice_ops();
std::vector<OpInfo> index_ops();
std::vector<OpInfo> scatter_ops();
std::vector<OpInfo> order_ops();
std::vector<OpInfo> quantize_ops();
std::vector<OpInfo> create_ops();
std::vector<OpInfo> reduce_ops();
std::vector<OpInfo> linear_ops();
std::vector<OpInfo> attention_ops();
std::vector<OpInfo> memory_ops();
std::vector<OpInfo> determinant_ops();
std::vector<OpInfo> normalize_ops();
std::vector<OpInfo> group_norm_ops();
std::vector<OpInfo> convolution_ops();
std::vector<OpInfo> control_ops();
std::vector<OpInfo> transposed_window_ops();
std::vector<OpInfo> resample_ops();
std::vector<OpInfo> loss_ops();
std::vector<OpInfo> recurrent_ops();
std::vector<OpInfo> grad_elementwise_ops();
std::vector<OpInfo> grad_slice_ops();
std::vector<OpInfo> grad_dense_ops();
std::vector<OpInfo> grad_attention_ops();
std::vector<OpInfo> grad_group_norm_ops();
std::vector<OpInfo> grad_recurrent_ops();
std::vector<OpInfo> grad_windows_ops();
std::vector<OpInfo> grad_resample_ops();
std::vector<OpInfo> grad_scatter_ops();
std::vector<OpInfo> grad_determinant_ops();

/// The name without its namespace: `core.add` -> `add`.
std::string_view short_name(const OpInfo& op);

/// Fails with the kernel's name unless the call runs on a CPU.
Result<void> require_cpu(const LowerCall& call, std::string_view kernel);

/// Adds to a row its lowering, the names of the ATen operators that the lowering calls, and attributes.
OpInfo by_rule(OpInfo op, LowerRule lower, std::vector<std::string_view> aten,
               std::vector<AttributeInfo> attributes = {});

// --- values that the tape keeps
inline Kept kept_operand(uint32_t index) { return {Kept::Of::kOperand, index}; }
/// Kept only if operand `wanted` needs a gradient.
inline Kept operand_where(uint32_t index, uint32_t wanted) { return {Kept::Of::kOperand, index, wanted}; }
inline Kept kept_result(uint32_t index = 0) { return {Kept::Of::kResult, index}; }
/// An `OpInfo::gradient_takes_auxiliary` rule: every auxiliary result of the operator.
inline uint32_t all_auxiliary(const TapeCall& call) {
  return static_cast<uint32_t>(call.op.results.size()) - call.op.min_results();
}

// --- shapes (shapes.cc)
/// Makes a type without checking the consistency of its parts.
ValueType make_type(DType dtype, Shape shape, BatchLayout batch = {});
/// The operand's shape. Fails if its rank is unknown.
Result<Shape> shape_of(const OpCall& call, size_t operand);
/// Normalizes an axis to 0…rank-1; negative ones count from the end. Fails if it is out of range.
Result<int64_t> checked_axis(int64_t axis, size_t rank);
/// Attribute `axis` of a verified task, normalized to 0…rank-1.
size_t counted_axis(const OpAttributes& attributes, size_t rank);
/// `checked_axis` for a list. The result is sorted and has no duplicates.
Result<std::vector<int64_t>> checked_axes(std::vector<int64_t> axes, size_t rank);
/// Whether a rule may assume that two sizes, or all sizes of two shapes, are equal: they certainly are, or they may be
/// and the call records the assumption. Two symbols are not taken for equal, nor the number of samples, which varies
/// within a step, for any other size.
bool taken_for_equal(const OpCall& call, const Dim& a, const Dim& b);
bool taken_for_equal(const OpCall& call, const Shape& a, const Shape& b);
/// Whether a rule may assume that a size is not negative; as `taken_for_equal`.
bool taken_for_not_negative(const OpCall& call, const Dim& size);
/// Attribute `axes` of a reduction of that rank, sorted; all axes if absent.
Result<std::vector<int64_t>> reduced_axes(const OpAttributes& attributes, size_t rank);
/// Type of a value without samples that sums over the samples of the operands, if they have any.
ValueType sum_over_samples(const OpCall& call, DType dtype, Shape shape);
/// Type of the gradient of `operand`, computed from the gradient of the result (operand 0). It is a partial sum if the
/// operand has no samples but others have.
Result<Types> gradient_type(const OpCall& call, size_t operand);
/// Fails if a dimension of `shape` is not a valid size.
Result<void> require_sizes(const OpCall& call, const Shape& shape);
/// Shape of a broadcast operation. Dimensions agree if they are equal, may be taken for equal or one of them is 1. A
/// size that is 1 only for some sizes of the inputs is not stretched. Of two sizes that are taken for equal, such as
/// `min(40, s)` and `s` of a table sliced to a length, the result has the simpler one.
Result<Shape> broadcast(const OpCall& call, const Shape& a, const Shape& b);
/// The element type that the operands have in common. If they differ, the error names both.
Result<DType> common_dtype(const OpCall& call, std::initializer_list<size_t> operands);
/// Integer list from attribute `name`, or from the contents of operand `operand`. Fails if neither is known.
Result<Shape> list_argument(const OpCall& call, std::string_view name, size_t operand);
bool has_list_argument(const OpCall& call, std::string_view name, size_t operand);

// --- batch layout (batch.cc)
/// Layout of a value computed from sizes alone: the dimension that counts samples. Fails if there are two.
Result<BatchLayout> layout_from_sizes(const OpCall& call, const Shape& shape);
/// Layout of a broadcast result of rank `rank` from operands aligned at the right.
Result<BatchLayout> broadcast_layout(const OpCall& call, size_t rank, std::span<const size_t> operands);
/// The common layout of operands whose axes correspond (concat): layouts are equal, or absent in some.
Result<BatchLayout> common_layout(const OpCall& call);
/// Layout after reshape from `from` to `to`. Fails if samples would be split.
Result<BatchLayout> reshape_layout(const OpCall& call, const BatchLayout& layout, const Shape& from, const Shape& to);
/// Fails if `axis` is the batch axis of `operand`: an operation over it would mix samples.
Result<void> keep_samples_apart(const OpCall& call, size_t operand, int64_t axis);
/// Fails unless the batch axis is axis 0 or absent, for convolutions and pooling.
Result<void> samples_lead(const OpCall& call, size_t operand);
Dim batch_dim(const OpCall& call);

// --- contents of integer values (contents.cc)
constexpr int64_t kMaxContents = 64;
/// The number after conversion to an element of that type; nothing if the element does not fit int64.
std::optional<int64_t> wrapped(DType dtype, int64_t value);
/// A numeric attribute as an element of that integer type or bool; nothing if it is not representable.
std::optional<int64_t> integer_element(const Attribute& attribute, DType dtype);
/// Attaches contents to a value of rank 0 or 1 if every element is known and there are at most kMaxContents. Numbers
/// wrap as the element type does. Sizes that may not fit a narrow type count as unknown.
void set_contents(ValueType& type, std::optional<Contents> contents);
/// Elementwise application with broadcasting of single elements; nothing if an element has no result.
std::optional<Contents> map_contents(const ValueType& a, const ValueType& b,
                                     std::optional<Dim> (*f)(const Dim&, const Dim&));
std::optional<Contents> map_contents(const ValueType& a, std::optional<Dim> (*f)(const Dim&));
/// Sums, differences and products with the semantics of 64-bit integers: those of two numbers wrap.
Dim plus(const Dim& a, const Dim& b);
Dim minus(const Dim& a, const Dim& b);
Dim times(const Dim& a, const Dim& b);
/// Contents or a shape as plain integers; nothing if an element is symbolic.
std::optional<std::vector<int64_t>> constants(const Contents& contents);

// --- lowering (lowering.cc)
/// Collects the calls of a lowering, in order.
class Calls {
 public:
  /// Appends a call and returns the first of its results.
  aten::Made operator()(std::string schema, std::vector<aten::Argument> arguments, uint32_t results = 1);
  aten::Lowering with(std::vector<aten::Value> results) &&;

 private:
  aten::Lowering made_;
};

/// The lowering of one call with one result.
aten::Lowering one_call(std::string schema, std::vector<aten::Argument> arguments);
/// A lowering whose result is operand 0 itself.
aten::Lowering passed_on();
/// A template: the call of `aten::<name>` whose arguments are the operator's `operands`, then `slots`.
aten::Template form(std::string schema, uint32_t operands, std::vector<aten::Template::Slot> slots = {});
const Shape& shape_of(const ValueType& type);
/// A tensor of that shape and of operand 0's type that needs no memory, for calls that read only the shape.
aten::Value shaped(Calls& calls, const Shape& shape);
/// A numeric attribute of any kind as a number of `dtype`.
aten::Scalar number_attribute(const Attribute& attribute, DType dtype);
double number_value(const Attribute& attribute);
std::string number(double value);  ///< for messages
/// The integer list attribute `name`, or the contents of the operand if the attribute is absent.
Result<Shape> lowered_list(const LowerCall& call, std::string_view name, size_t operand);

// --- work (shapes.cc)
/// Bytes of all operands and outputs.
Dim traffic(const OpCall& call, std::span<const ValueType> outputs);
Work work(Dim flops, const OpCall& call, std::span<const ValueType> outputs);
/// No work: the results share memory with operand 0.
Work view_work(const OpCall& call, std::span<const ValueType> outputs);
/// Work of that many operations per element of the first result; none for integers.
template <int64_t operations>
Work elementwise_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !is_float(outputs[0].dtype)) return work(0, call, outputs);
  return work(element_count(*outputs[0].shape) * Dim(operations), call, outputs);
}

}  // namespace rannc::ir::ops
