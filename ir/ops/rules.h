/// What the operator families share: helpers of type rules, work rules and lowering rules. Private to ir/ops.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "ir/dim/dim_bounds.h"
#include "ir/op/op.h"

namespace rannc::ir::ops {

using Types = std::vector<ValueType>;
using InferRule = Result<Types> (*)(const OpCall&);
using WorkRule = Work (*)(const OpCall&, std::span<const ValueType>);
using LowerRule = Result<aten::Lowering> (*)(const LowerCall&);
using FoldRule = std::vector<int64_t> (*)(FoldCall&);
using IntervalRule = std::optional<IndexRange> (*)(const IntervalCall&);
using GradientRule = bool (*)(GradientCall&);

/// The families; each table is the one place where its operators are declared.
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
std::vector<OpInfo> grad_group_norm_ops();
std::vector<OpInfo> grad_windows_ops();
std::vector<OpInfo> grad_resample_ops();
std::vector<OpInfo> grad_scatter_ops();
std::vector<OpInfo> grad_determinant_ops();

/// `core.add` -> `add`.
std::string_view short_name(const OpInfo& op);

/// A row with its lowering, the operators of ATen that stand there, and attributes.
OpInfo by_rule(OpInfo op, LowerRule lower, std::vector<std::string_view> aten,
               std::vector<AttributeInfo> attributes = {});

// --- what the tape keeps
inline Kept kept_operand(uint32_t index) { return {Kept::Of::kOperand, index}; }
/// Only where operand `wanted` wants a gradient.
inline Kept operand_where(uint32_t index, uint32_t wanted) { return {Kept::Of::kOperand, index, wanted}; }
inline Kept kept_result(uint32_t index = 0) { return {Kept::Of::kResult, index}; }

// --- shapes (shapes.cc)
/// A type rule's value before its parts are known to be consistent.
ValueType make_type(DType dtype, Shape shape, BatchLayout batch = {});
/// The operand's shape; an error where its rank is unknown.
Result<Shape> shape_of(const OpCall& call, size_t operand);
/// `axis` in 0…rank-1, counted from the end where negative; an error outside.
Result<int64_t> checked_axis(int64_t axis, size_t rank);
/// Attribute `axis` of a task that verifies, from 0 on.
size_t counted_axis(const OpAttributes& attributes, size_t rank);
/// The same for a list; sorted, without duplicates.
Result<std::vector<int64_t>> checked_axes(std::vector<int64_t> axes, size_t rank);
/// Whether a rule may take two sizes for equal: they certainly are, or they may be and the call takes the equality as
/// an assumption. None is taken that speaks of the samples, whose number varies within a step.
bool taken_for_equal(const OpCall& call, const Dim& a, const Dim& b);
/// The same for a size that must not be negative.
bool taken_for_not_negative(const OpCall& call, const Dim& size);
/// Attribute `axes` of a reduction of that rank, sorted; all axes where it is absent.
Result<std::vector<int64_t>> reduced_axes(const OpAttributes& attributes, size_t rank);
/// A value without samples, made from operands some of which may have them: a sum over these.
ValueType sum_over_samples(const OpCall& call, DType dtype, Shape shape);
/// The type of a gradient of `operand`, made from that of the result, which is operand 0: where the operand has no
/// samples but others have, a partial sum.
Result<Types> gradient_type(const OpCall& call, size_t operand);
/// An error where a size of `shape` may not be taken for one.
Result<void> require_sizes(const OpCall& call, const Shape& shape);
/// Shape of a broadcast operation. Dimensions agree where equal or one of them is 1; a symbol against a number or
/// another symbol is an error. `min(40, s)` against `s`, as a table cut to a length gives it, is an assumption, as is
/// every computed size that may equal the other; the simpler of the two stands in the result.
Result<Shape> broadcast(const OpCall& call, const Shape& a, const Shape& b);
/// `-1 -> rank-1`, checked dtype equality: an error naming both where operand dtypes differ.
Result<DType> common_dtype(const OpCall& call, std::initializer_list<size_t> operands);
/// Integer list from attribute `name`, or from the contents of operand `operand`; an error where neither is known.
Result<Shape> list_argument(const OpCall& call, std::string_view name, size_t operand);
bool has_list_argument(const OpCall& call, std::string_view name, size_t operand);

// --- place of the samples (batch.cc)
/// The layout of a value made from sizes alone: its one dimension that counts samples. An error where there are two.
Result<BatchLayout> layout_from_sizes(const OpCall& call, const Shape& shape);
/// Layout of a broadcast result of rank `rank` from operands aligned at the right.
Result<BatchLayout> broadcast_layout(const OpCall& call, size_t rank, std::span<const size_t> operands);
/// The one layout that operands have which keep their axes (concat): equal, or absent in some.
Result<BatchLayout> common_layout(const OpCall& call);
/// Layout after reshape from `from` to `to`; an error where samples would be split.
Result<BatchLayout> reshape_layout(const OpCall& call, const BatchLayout& layout, const Shape& from, const Shape& to);
/// Success unless `axis` is where the samples of `operand` are: an operation over it would mix samples.
Result<void> keep_samples_apart(const OpCall& call, size_t operand, int64_t axis);
/// Samples stand at axis 0 or nowhere: for convolutions and pooling.
Result<void> samples_lead(const OpCall& call, size_t operand);
Dim batch_dim(const OpCall& call);

// --- contents of integer values (contents.cc)
constexpr int64_t kMaxContents = 64;
/// The number as an element of that type reads it back; nothing where int64 holds no such element.
std::optional<int64_t> wrapped(DType dtype, int64_t value);
/// An attribute that is a number, as an element of that integer type or bool; nothing where it holds no such number.
std::optional<int64_t> integer_element(const Attribute& attribute, DType dtype);
/// Attaches contents to a value of rank 0 or 1 if every element is known and there are at most kMaxContents. Numbers
/// wrap as the element type does; sizes that a narrow type may not hold are not known.
void set_contents(ValueType& type, std::optional<Contents> contents);
/// Elementwise application with broadcasting of single elements; nothing where an element has no result.
std::optional<Contents> map_contents(const ValueType& a, const ValueType& b,
                                     std::optional<Dim> (*f)(const Dim&, const Dim&));
std::optional<Contents> map_contents(const ValueType& a, std::optional<Dim> (*f)(const Dim&));
/// Sums, differences and products as 64-bit integers are computed at run time: of two numbers they wrap.
Dim plus(const Dim& a, const Dim& b);
Dim minus(const Dim& a, const Dim& b);
Dim times(const Dim& a, const Dim& b);
/// Product of known contents' elements or of a shape as plain integers; nothing where symbolic.
std::optional<std::vector<int64_t>> constants(const Contents& contents);

// --- lowering (lowering.cc)
/// Takes down the calls of a lowering, in order.
class Calls {
 public:
  /// The first of the call's results.
  aten::Made operator()(std::string schema, std::vector<aten::Argument> arguments, uint32_t results = 1);
  aten::Lowering with(std::vector<aten::Value> results) &&;

 private:
  aten::Lowering made_;
};

/// The lowering of one call with one result.
aten::Lowering one_call(std::string schema, std::vector<aten::Argument> arguments);
/// The result is the operand itself.
aten::Lowering passed_on();
/// A template: the call of `aten::<name>` whose arguments are the operator's `operands`, then `slots`.
aten::Template form(std::string schema, uint32_t operands, std::vector<aten::Template::Slot> slots = {});
const Shape& shape_of(const ValueType& type);
/// A tensor of that shape and of operand 0's type that takes no memory: where ATen reads the shape alone.
aten::Value shaped(Calls& calls, const Shape& shape);
/// An attribute that is a number of any kind as a number of `dtype`.
aten::Scalar number_attribute(const Attribute& attribute, DType dtype);
double number_value(const Attribute& attribute);
std::string number(double value);  ///< for messages
/// The integer list attribute `name`, or the contents of the operand where only they say it.
Result<Shape> lowered_list(const LowerCall& call, std::string_view name, size_t operand);

// --- work (shapes.cc)
/// Bytes of all operands and outputs.
Dim traffic(const OpCall& call, std::span<const ValueType> outputs);
Work work(Dim flops, const OpCall& call, std::span<const ValueType> outputs);
/// So many operations for each element of the first result; none on integers.
template <int64_t operations>
Work elementwise_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !is_float(outputs[0].dtype)) return work(0, call, outputs);
  return work(element_count(*outputs[0].shape) * Dim(operations), call, outputs);
}

}  // namespace rannc::ir::ops
