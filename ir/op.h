/// What is known of an operator: one entry per core operator, with its rules for type, work and lowering.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/aten.h"
#include "ir/graph.h"
#include "ir/op_signature.h"
#include "ir/op_tape.h"

namespace rannc::ir {

/// Two sizes that are taken for equal.
using Equality = std::pair<Dim, Dim>;

struct OpInfo;

/// The attributes of a task as its rules read them: absent ones stand for what the operator's entry says.
class OpAttributes {
 public:
  OpAttributes(const OpInfo& op, const Attributes& given) : op_(&op), given_(&given) {}
  const Attributes& given() const { return *given_; }
  /// As given, or the entry's default; null where there is neither.
  const Attribute* find(std::string_view name) const;
  /// Whether it is given, or has a default.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Typed look-ups; one that has no default must be given or has the type's zero.
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const { return given_->dtype(name); }
  const Shape* list(std::string_view name) const { return given_->list(name); }
  /// A list of plain integers; empty where absent.
  std::vector<int64_t> integers(std::string_view name) const { return given_->integers(name); }

 private:
  const OpInfo* op_;
  const Attributes* given_;
};

/// What a type rule sees of a task, without the task having to be in a graph.
struct OpCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  OpAttributes attributes;
  std::string_view batch_symbol;
  uint32_t output_count = 1;
  std::vector<Equality>* assumed = nullptr;  ///< takes what the rule needs and cannot prove; null: it must prove all

  OpCall(const OpInfo& op, std::span<const ValueType* const> inputs, const Attributes& attributes,
         std::string_view batch_symbol, uint32_t output_count = 1, std::vector<Equality>* assumed = nullptr)
      : op(op),
        inputs(inputs),
        attributes(op, attributes),
        batch_symbol(batch_symbol),
        output_count(output_count),
        assumed(assumed) {}
  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
  const ValueType& in(size_t operand) const { return *inputs[operand]; }
};

/// Work and traffic of one execution; expressions of the batch symbol.
struct Work {
  Dim flops = 0;  ///< floating-point operations, a multiply-add counts two
  Dim bytes = 0;  ///< bytes read and written
};

/// What a lowering rule sees of a task.
struct LowerCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  std::span<const ValueType* const> outputs;
  OpAttributes attributes;

  LowerCall(const OpInfo& op, std::span<const ValueType* const> inputs, std::span<const ValueType* const> outputs,
            const Attributes& attributes)
      : op(op), inputs(inputs), outputs(outputs), attributes(op, attributes) {}
  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
};

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
  Effect effect = Effect::kPure;
  View view = View::kNone;
  bool broadcasts = false;  ///< operands stretch to a common shape
  /// Types of all outputs, from operands and attributes; symbolic; sets batch layout and integer contents as well.
  /// A diagnostic (without location) for operands that do not fit. Null: unknown (foreign operators). Sizes that have
  /// to be equal and may be go to `assumed`, reduced (`ir/dim_bounds.h`).
  Result<std::vector<ValueType>> (*infer)(const OpCall&) = nullptr;
  /// Whether it passes a partial sum on (`ir/type.h`). Null: it does not.
  Linear (*linear)(const OpCall&) = nullptr;
  /// Which component of the indices (its operand of role kIndex) picks along an axis of operand 0: -1 where each number
  /// does. Nothing: none. Null: it has no indices.
  std::optional<int64_t> (*picks)(const OpCall&, int64_t axis) = nullptr;
  /// Work of the forward pass. Null: reads and writes only.
  Work (*work)(const OpCall&, std::span<const ValueType> outputs) = nullptr;
  /// What it is lowered to: a template where one call is the operator, else a rule. Neither: cannot be lowered.
  std::optional<aten::Template> form = {};
  Result<aten::Lowering> (*lower)(const LowerCall&) = nullptr;
  /// The elements of the results where all operands are integers that are known (`ir/fold.h`). Null: not computed here.
  std::vector<int64_t> (*fold)(FoldCall&) = nullptr;
  /// Where the elements of an integer result lie (`ir/interval.h`). Null, or nothing: not known.
  std::optional<IndexRange> (*interval)(const IntervalCall&) = nullptr;
  /// Adds the tasks of the gradient (`ir/gradient.h`); false where it has none for these attributes. Null: none is
  /// known.
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
  /// The first required attribute that is not given, or null.
  const AttributeInfo* missing(const Attributes& given) const;
};

/// The core operators, sorted by name.
std::span<const OpInfo> core_ops();
/// The core operator of that full name (`core.add`), or null.
const OpInfo* find_op(std::string_view name);
/// The core operator of that short name (`add`); its absence is our bug.
const OpInfo& core(std::string_view short_name);

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
