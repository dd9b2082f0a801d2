/// Operator entries: the properties of an operator and its rules for types, work, lowering and gradients.
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

/// An `OpInfo::linear` rule that does not depend on the call.
template <Linear linear>
Linear always(const OpCall&) {
  return linear;
}

class GradientCall;
class MemoryCall;
struct FoldCall;
struct IndexRange;
struct IntervalCall;

/// One operator. Entries of the registry live as long as the program and never change.
struct OpInfo {
  std::string name;                         ///< `core.add`, `aten.my_op`
  std::string_view summary = {};            ///< one sentence of documentation
  std::vector<std::string_view> onnx = {};  ///< ONNX operators that map to this one for some attributes or opsets
  std::vector<std::string_view> aten = {};  ///< ATen operators beside the one of `form`
  std::vector<OperandInfo> operands = {};
  std::vector<AttributeInfo> attributes = {};
  std::vector<ResultInfo> results = {{"result"}};
  View view = View::kNone;
  bool broadcasts = false;  ///< operands are broadcast to a common shape
  Autocast autocast = Autocast::kWidest;
  /// Symbolic types of all outputs, with batch layout and integer contents. Fails with a diagnostic without location if
  /// operands do not fit. Equalities of sizes that are required but not provable go to `assumed`, reduced
  /// (`ir/dim/dim_bounds.h`). Null: unknown (foreign operators).
  Result<std::vector<ValueType>> (*infer)(const OpCall&) = nullptr;
  /// The attributes with bodies fitted to the types of the operands. Null: the operator has no bodies.
  Result<Attributes> (*fit)(const OpCall&) = nullptr;
  /// Whether it propagates partial sums (`ir/graph/type.h`). Null: it does not.
  Linear (*linear)(const OpCall&) = nullptr;
  /// The component of the indices (the operand of role kIndex) that selects along an axis of operand 0; -1 if every
  /// number does, nothing if none does. Null: the operator has no indices.
  std::optional<int64_t> (*picks)(const OpCall&, int64_t axis) = nullptr;
  /// Work of the forward pass. Null: memory traffic only.
  Work (*work)(const OpCall&, std::span<const ValueType> outputs) = nullptr;
  /// Lowering: a template if one call suffices, else a rule. Neither: cannot be lowered.
  std::optional<aten::Template> form = {};
  Result<aten::Lowering> (*lower)(const LowerCall&) = nullptr;
  /// Folding rule for known integer operands (`ir/op/fold.h`). Null: not folded.
  std::vector<int64_t> (*fold)(FoldCall&) = nullptr;
  /// Interval rule of an integer result (`ir/op/interval.h`). Null, or nothing: unknown.
  std::optional<IndexRange> (*interval)(const IntervalCall&) = nullptr;
  /// Adds the tasks of the gradient (`ir/gradient/gradient.h`). False: no rule for these attributes. Null: no rule.
  bool (*gradient)(GradientCall&) = nullptr;
  /// Number of auxiliary results that the gradient of a call reads. The forward task then returns them. Null: none.
  uint32_t (*gradient_takes_auxiliary)(const TapeCall&) = nullptr;
  /// Whether one kernel computes all gradients of a call, those of parameters at little additional cost. If phase I
  /// runs it for an activation's gradient, the gradients of parameters belong to I as well. Null: no.
  bool (*shares_gradient_kernel)(const OpAttributes&) = nullptr;
  /// Values that LibTorch's tape keeps. Nothing: those that the gradient rule reads.
  std::optional<TapeInfo> tape = {};
  /// The axes of its results of as many axes, outermost in memory first. Null: results are contiguous.
  std::vector<int64_t> (*axes_in_memory)(const Attributes&) = nullptr;
  /// Operands that its lowering copies, each of which the copy replaces. Null: none.
  std::vector<uint32_t> (*copied)(const MemoryCall&) = nullptr;
  /// Peak bytes that its calls allocate beside operands, their copies and results. Null: none.
  Dim (*temporary)(const MemoryCall&) = nullptr;
  std::string_view family = {};  ///< the file that declares it; set by the registry

  bool known() const { return infer != nullptr; }
  bool has_gradient_kernel(const Attributes& given) const {
    return shares_gradient_kernel != nullptr && shares_gradient_kernel(OpAttributes(*this, given));
  }
  /// Whether it completes partial sums, once per step.
  bool makes_whole() const { return linear == always<Linear::kWhole>; }
  bool can_be_lowered() const { return form.has_value() || lower != nullptr; }
  /// Number of required operands, which come first, and maximum number of operands (UINT32_MAX: any number).
  uint32_t min_inputs() const;
  uint32_t max_inputs() const;
  /// Number of results that every task has.
  uint32_t min_results() const;
  /// Whether a task may have that many results.
  bool may_have_results(size_t count) const;
  /// The declaration of the operand at `index`. A variadic last operand covers all further indices.
  const OperandInfo& operand(size_t index) const;
  const AttributeInfo* attribute(std::string_view name) const;
  /// Whether a task with these attributes behaves differently in training and in evaluation.
  bool depends_on_training(const Attributes& given) const;
  /// The first required attribute that is missing, or null.
  const AttributeInfo* missing(const Attributes& given) const;
};

/// The core operators, sorted by name.
std::span<const OpInfo> core_ops();
/// The core operator of that full name (`core.add`), or null.
const OpInfo* find_op(std::string_view name);
/// The core operator of that short name (`add`), which must exist (RANNC_CHECK).
const OpInfo& core(std::string_view short_name);

/// The types of values, as rules take them; null for invalid ids.
std::vector<const ValueType*> type_list(const Graph& graph, std::span<const ValueId> values);
/// The fault in the operands (null: absent) or the number of results of a task of `op`; empty if there is none.
std::string arity_fault(const OpInfo& op, std::span<const ValueType* const> operands, size_t results);
/// Result types of a call: those of the operator's type rule, with `BatchLayout::mix` propagated from operands that
/// depend on the samples of a micro-batch without a batch axis.
Result<std::vector<ValueType>> types_of(const OpCall& call);
/// Fills in `BatchLayout::mix` if no type of the graph has one, as in older texts.
void fill_mixes(Graph& graph);
/// Work of a task; only bytes read and written if the operator has no work rule.
Work work_of(const Graph& graph, TaskId task);
/// All that LibTorch's tape keeps of a task: the values that the entry lists and those that its rule adds, or, of an
/// entry without `tape`, what the gradient rule reads. Without either, or if a rank is unknown: float operands and all
/// results. Bit k of `wanted`: operand k needs a gradient.
TapeUse tape_use(const Graph& graph, TaskId task, uint64_t wanted);
/// Applies the type rule of a task. Stores the types of its outputs and the rule's assumptions in the graph. Errors
/// carry the task's location.
Result<void> infer_types(Graph& graph, TaskId task);
/// Lowers a task to calls. Fails with a diagnostic without location if types and attributes do not determine them.
Result<aten::Lowering> lowering(const LowerCall& call);

}  // namespace rannc::ir
