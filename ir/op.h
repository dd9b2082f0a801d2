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

namespace rannc::ir {

/// Two sizes that are taken for equal.
using Equality = std::pair<Dim, Dim>;

/// What a type rule sees of a task, without the task having to be in a graph.
struct OpCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  const Attributes& attributes;
  std::string_view batch_symbol;
  uint32_t output_count = 1;
  std::vector<Equality>* assumed = nullptr;  ///< takes what the rule needs and cannot prove; null: it must prove all
  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
  const ValueType& in(size_t operand) const { return *inputs[operand]; }
};

/// Work and traffic of one execution; expressions of the batch symbol.
struct Work {
  Dim flops = 0;           ///< floating-point operations, a multiply-add counts two
  Dim bytes = 0;           ///< bytes read and written
};

/// What a lowering rule sees of a task.
struct LowerCall {
  const OpInfo& op;
  std::span<const ValueType* const> inputs;  ///< null: absent optional operand
  std::span<const ValueType* const> outputs;
  const Attributes& attributes;
  bool has(size_t operand) const { return operand < inputs.size() && inputs[operand] != nullptr; }
};

struct FoldCall;
struct IndexRange;
struct IntervalCall;

/// How far a mini-batch's samples stay apart in an operator.
enum class Effect : uint8_t {
  kPure,        ///< a function of its operands
  kRandom,      ///< draws random numbers, keyed by (seed, step, task, sample)
  kStatistics,  ///< updates running statistics (BatchNormalization in training mode)
};

/// One operator. Entries of the registry live as long as the program and are never changed.
struct OpInfo {
  std::string name;          ///< `core.add`, `aten.my_op`
  uint32_t min_inputs = 0;
  uint32_t max_inputs = 0;   ///< UINT32_MAX: any number
  uint32_t outputs = 1;      ///< 0: as many as the task says
  std::vector<std::string> attributes;  ///< names that may occur
  Effect effect = Effect::kPure;
  /// Types of all outputs, from operands and attributes; symbolic; sets batch layout and integer contents as well.
  /// A diagnostic (without location) for operands that do not fit. Null: unknown (foreign operators). Sizes that have
  /// to be equal and may be go to `assumed`, reduced (`ir/dim_bounds.h`).
  Result<std::vector<ValueType>> (*infer)(const OpCall&) = nullptr;
  /// Work of the forward pass. Null: reads and writes only.
  Work (*work)(const OpCall&, std::span<const ValueType> outputs) = nullptr;
  /// What it is lowered to: a template where one call is the operator, else a rule. Neither: cannot be lowered.
  std::optional<aten::Template> form = {};
  Result<aten::Lowering> (*lower)(const LowerCall&) = nullptr;
  /// The elements of the results where all operands are integers that are known (`ir/fold.h`). Null: not computed here.
  std::vector<int64_t> (*fold)(FoldCall&) = nullptr;
  /// Where the elements of an integer result lie (`ir/interval.h`). Null, or nothing: not known.
  std::optional<IndexRange> (*interval)(const IntervalCall&) = nullptr;
  /// Per operand the attribute that may stand for it where its contents are known (the operand form); empty: data.
  std::vector<std::string> operand_attributes = {};
  bool known() const { return infer != nullptr; }
  bool can_be_lowered() const { return form.has_value() || lower != nullptr; }
};

/// The core operators, sorted by name.
std::span<const OpInfo> core_ops();
/// The core operator of that full name (`core.add`), or null.
const OpInfo* find_op(std::string_view name);
/// The core operator of that short name (`add`); its absence is our bug.
const OpInfo& core(std::string_view short_name);

/// Work of a task; the sum of bytes read and written where the operator has no rule of its own.
Work work_of(const Graph& graph, TaskId task);
/// Applies the type rule of a task and stores the types of its outputs, and what the rule had to assume in the graph.
/// Errors carry the task's location.
Result<void> infer_types(Graph& graph, TaskId task);
/// The calls of a task; a diagnostic (without location) where they do not follow from its types and attributes.
Result<aten::Lowering> lowering(const LowerCall& call);
/// A symbolic integer as a TorchScript expression of variables named like the symbols (dots become underscores).
std::string torchscript(const Dim& dim);
std::string torchscript(const Shape& shape);

}  // namespace rannc::ir
