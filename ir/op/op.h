/// What is known of an operator: one entry per core operator, with its rules for type, work and lowering.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/op/aten.h"
#include "ir/op/op_call.h"
#include "ir/op/op_signature.h"
#include "ir/op/op_tape.h"

namespace rannc::ir {

/// A rule of `OpInfo::linear` that does not depend on the call.
template <Linear linear>
Linear always(const OpCall&) {
  return linear;
}

class GradientCall;
struct FoldCall;
struct IndexRange;
struct IntervalCall;

/// One operator: all that is known of it. Entries of the registry live as long as the program and are never changed.
struct OpInfo {
  std::string name;                         ///< `core.add`, `aten.my_op`
  std::string_view says = {};               ///< one sentence of documentation
  std::vector<std::string_view> onnx = {};  ///< operators of ONNX that are this one, for some attributes or opsets
  std::vector<std::string_view> aten = {};  ///< operators of ATen beside the one of `form`
  std::vector<OperandInfo> operands = {};
  std::vector<AttributeInfo> attributes = {};
  std::vector<ResultInfo> results = {{"result"}};
  View view = View::kNone;
  bool broadcasts = false;  ///< operands stretch to a common shape
  /// Types of all outputs, from operands and attributes; symbolic; sets batch layout and integer contents as well.
  /// A diagnostic (without location) for operands that do not fit. Null: unknown (foreign operators). Sizes that have
  /// to be equal and may be go to `assumed`, reduced (`ir/dim/dim_bounds.h`).
  Result<std::vector<ValueType>> (*infer)(const OpCall&) = nullptr;
  /// The attributes with bodies that take the operands as they are. Null: it has no bodies.
  Result<Attributes> (*fit)(const OpCall&) = nullptr;
  /// Whether it passes a partial sum on (`ir/graph/type.h`). Null: it does not.
  Linear (*linear)(const OpCall&) = nullptr;
  /// Which component of the indices (its operand of role kIndex) picks along an axis of operand 0: -1 where each number
  /// does. Nothing: none. Null: it has no indices.
  std::optional<int64_t> (*picks)(const OpCall&, int64_t axis) = nullptr;
  /// Work of the forward pass. Null: reads and writes only.
  Work (*work)(const OpCall&, std::span<const ValueType> outputs) = nullptr;
  /// What it is lowered to: a template where one call is the operator, else a rule. Neither: cannot be lowered.
  std::optional<aten::Template> form = {};
  Result<aten::Lowering> (*lower)(const LowerCall&) = nullptr;
  /// The elements of the results where all operands are integers that are known (`ir/op/fold.h`). Null: not computed
  /// here.
  std::vector<int64_t> (*fold)(FoldCall&) = nullptr;
  /// Where the elements of an integer result lie (`ir/op/interval.h`). Null, or nothing: not known.
  std::optional<IndexRange> (*interval)(const IntervalCall&) = nullptr;
  /// Adds the tasks of the gradient (`ir/gradient/gradient.h`); false where it has none for these attributes. Null:
  /// none is known.
  bool (*gradient)(GradientCall&) = nullptr;
  bool gradient_takes_auxiliary = false;  ///< it reads the auxiliary results, which the forward task then makes
  /// What LibTorch's tape keeps. Nothing: it is not known, and float operands and all results are taken for kept.
  std::optional<TapeInfo> tape = {};
  std::string_view family = {};  ///< set by the registry: the file that declares it

  bool known() const { return infer != nullptr; }
  /// Whether it makes partial sums whole, once a step.
  bool makes_whole() const { return linear == always<Linear::kWhole>; }
  bool can_be_lowered() const { return form.has_value() || lower != nullptr; }
  /// Operands that must be there, which come first; how many there may be (UINT32_MAX: any number).
  uint32_t min_inputs() const;
  uint32_t max_inputs() const;
  /// Results that every task has.
  uint32_t min_results() const;
  /// Whether a task may have that many results.
  bool may_have_results(size_t count) const;
  /// What stands at that place, which may be that of the last one that repeats.
  const OperandInfo& operand(size_t index) const;
  const AttributeInfo* attribute(std::string_view name) const;
  /// Whether a task of these attributes does one thing where the run trains and another where it evaluates.
  bool asks_training(const Attributes& given) const;
  /// The first required attribute that is not given, or null.
  const AttributeInfo* missing(const Attributes& given) const;
};

/// The core operators, sorted by name.
std::span<const OpInfo> core_ops();
/// The core operator of that full name (`core.add`), or null.
const OpInfo* find_op(std::string_view name);
/// The core operator of that short name (`add`); its absence is our bug.
const OpInfo& core(std::string_view short_name);

/// The types of values, null for invalid ones: what rules take.
std::vector<const ValueType*> type_list(const Graph& graph, std::span<const ValueId> values);
/// What is wrong with the operands (null: absent) and the number of results of a task of `op`; empty: nothing.
std::string arity_fault(const OpInfo& op, std::span<const ValueType* const> operands, size_t results);
/// The types that an operator gives: those of its rule, with what becomes of operands that depend on the samples of a
/// micro-batch without having an axis of them.
Result<std::vector<ValueType>> types_of(const OpCall& call);
/// Fills in what becomes of samples (`BatchLayout::mix`) where no type of the graph says it, as older texts do not.
void fill_mixes(Graph& graph);
/// Work of a task; the sum of bytes read and written where the operator has no rule of its own.
Work work_of(const Graph& graph, TaskId task);
/// All that the tape keeps of a task through which a gradient flows: what the entry lists, which must say something,
/// and what its rule adds. The rule is not asked where a rank is unknown.
TapeUse tape_use(const Graph& graph, TaskId task, uint64_t wanted);
/// Applies the type rule of a task and stores the types of its outputs, and what the rule had to assume in the graph.
/// Errors carry the task's location.
Result<void> infer_types(Graph& graph, TaskId task);
/// The calls of a task; a diagnostic (without location) where they do not follow from its types and attributes.
Result<aten::Lowering> lowering(const LowerCall& call);
/// A symbolic integer as a TorchScript expression of variables named like the symbols (dots become underscores).
std::string torchscript(const Dim& dim);
std::string torchscript(const Shape& shape);

}  // namespace rannc::ir
