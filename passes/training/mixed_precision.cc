#include "passes/training/mixed_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

namespace {

using ir::Autocast;
using ir::DType;
using ir::Graph;

constexpr DType kWide = DType::kF32;

constexpr ir::Capture kTask{0};
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

/// The numbers of a stored tensor, or the only one of a tensor that is filled with it.
std::optional<std::vector<double>> numbers_of(const Graph& graph, ValueId id) {
  static const ir::Pattern kFilled = ir::op("full").as(kTask);
  if (const auto filled = ir::match(graph, id, kFilled)) {
    const ir::Attribute* const given = filled->attributes(kTask).find("value");
    const auto* const number = given != nullptr ? std::get_if<double>(given) : nullptr;  // or a size
    return number != nullptr ? std::optional(std::vector{*number}) : std::nullopt;
  }
  const Graph::Value& value = graph.value(id);
  if (value.kind != ir::ValueKind::kConstant || !value.data.present()) return std::nullopt;
  auto numbers = ir::decode_numbers(value.type, value.data, kAll);
  return numbers ? std::optional(*std::move(numbers)) : std::nullopt;
}

/// Whether a constant has the same numbers in `narrow`.
bool is_exact_in(DType narrow, const Graph& graph, ValueId value) {
  const auto numbers = numbers_of(graph, value);
  if (!numbers) return false;
  ir::ValueType rounded;
  rounded.dtype = narrow;
  rounded.shape = ir::Shape{static_cast<int64_t>(numbers->size())};
  const auto again = ir::decode_numbers(rounded, ir::encode_numbers(narrow, *numbers), kAll);
  return again && std::equal(numbers->begin(), numbers->end(), again->begin(),
                             [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

class Caster {
 public:
  Caster(const Graph& from, DType narrow)
      : from_(from), narrow_(narrow), results_(ir::results_of(from)), rewriter_(from), exact_(from.value_count()) {}

  Graph run() {
    for (const TaskId task : from_.tasks()) convert(task);
    for (const auto& [result, wide] : wide_results_) rewriter_.replace(result, wide);
    return std::move(rewriter_).finish();
  }

  /// Number of tasks that compute in 16 bits.
  size_t narrowed() const { return narrowed_; }

 private:
  Graph& to() { return rewriter_.graph(); }

  /// Whether the type of a value may be changed: float32 in the original graph.
  bool is_castable(ValueId value) const { return value.valid() && from_.type(value).dtype == kWide; }

  bool is_exact(ValueId value) {
    std::optional<bool>& known = exact_[value.index()];
    if (!known) known = is_exact_in(narrow_, from_, value);
    return *known;
  }

  /// The narrow type if no operand widens the task and at least one is narrow. Exact constants do neither.
  DType widest_of(TaskId task) {
    bool any = false;
    for (const ValueId operand : from_.inputs(task)) {
      if (!is_castable(operand)) continue;
      const bool is_narrow = to().type(rewriter_.map(operand)).dtype == narrow_;
      if (!is_narrow && !is_exact(operand)) return kWide;
      any = any || is_narrow;
    }
    return any ? narrow_ : kWide;
  }

  DType type_for(TaskId task) {
    switch (from_.op(task).autocast) {
      case Autocast::kSixteenBit:
        return narrow_;
      case Autocast::kFloat32:
        return kWide;
      case Autocast::kWidest:
        return widest_of(task);
    }
    return kWide;
  }

  /// Types of the results if float32 operands have type `narrow_`; nothing if the operator rejects it.
  std::optional<std::vector<ir::ValueType>> narrow_types(TaskId task) const {
    std::vector<ir::ValueType> types;
    for (const ValueId operand : from_.inputs(task)) {
      types.push_back(operand.valid() ? from_.type(operand) : ir::ValueType{});
      if (is_castable(operand)) types.back().dtype = narrow_;
    }
    std::vector<const ir::ValueType*> operands;
    for (size_t i = 0; i < types.size(); ++i) {
      operands.push_back(from_.inputs(task)[i].valid() ? &types[i] : nullptr);
    }
    std::vector<ir::Equality> assumed;  // those of the float32 task, which the graph has already
    auto results = ir::types_of({from_.op(task), operands, from_.attributes(task), from_.batch_symbol(),
                                 static_cast<uint32_t>(from_.outputs(task).size()), &assumed});
    if (!results) return std::nullopt;
    return *std::move(results);
  }

  void convert(TaskId task) {
    const auto inputs = from_.inputs(task);
    const bool casts = std::any_of(inputs.begin(), inputs.end(), [&](ValueId value) { return is_castable(value); });
    std::optional<std::vector<ir::ValueType>> narrow;
    if (casts && type_for(task) == narrow_) narrow = narrow_types(task);
    std::vector<ValueId> operands;
    for (const ValueId input : inputs) {
      operands.push_back(is_castable(input) ? cast(input, narrow ? narrow_ : kWide, from_.location(task))
                                            : rewriter_.map(input));
    }
    if (narrow) {
      ++narrowed_;
      add_narrow(task, operands, *std::move(narrow));
    } else {
      rewriter_.copy(task, operands);
    }
  }

  void add_narrow(TaskId task, const std::vector<ValueId>& operands, std::vector<ir::ValueType> types) {
    const auto outputs = from_.outputs(task);
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs.size(); ++i) {
      names.emplace_back(from_.value(outputs[i]).name);
      if (needs_wide_copy(outputs[i], types[i])) names.back() += suffix(types[i].dtype);
    }
    const TaskId copy = to().add_task(from_.op(task), operands, from_.attributes(task), names, from_.location(task));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool wide_copy = needs_wide_copy(outputs[i], types[i]);
      const ValueId made = to().outputs(copy)[i];
      to().set_type(made, std::move(types[i]));
      rewriter_.replace(outputs[i], made);
      if (wide_copy) wide_results_.emplace_back(outputs[i], cast(outputs[i], kWide, from_.location(task)));
    }
  }

  /// Results of the graph keep their types.
  bool needs_wide_copy(ValueId output, const ir::ValueType& type) const {
    return results_[output.index()] && type.dtype != from_.type(output).dtype;
  }

  static std::string suffix(DType dtype) { return "." + std::string(ir::str(dtype)); }

  /// The new value of `of` as that type. Each cast is made once, before its first reader.
  ValueId cast(ValueId of, DType dtype, const Location& where) {
    const ValueId computed = rewriter_.map(of);
    if (to().type(computed).dtype == dtype) return computed;
    ValueId& made = casts_[{computed, dtype}];
    if (made.valid()) return made;
    std::string name(from_.value(of).name);
    if (to().find(name).valid()) name += suffix(dtype);
    made = to().add(ir::core("cast"), {computed}, {{"dtype", dtype}}, std::move(name), where);
    const auto typed = ir::infer_types(to(), to().producer(made));
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
    return made;
  }

  const Graph& from_;
  const DType narrow_;
  const std::vector<bool> results_;
  ir::Rewriter rewriter_;                                  // maps values to the type that their task computes
  std::vector<std::pair<ValueId, ValueId>> wide_results_;  // results of the graph, and the copies that replace them
  std::vector<std::optional<bool>> exact_;                 // by old value
  std::map<std::pair<ValueId, DType>, ValueId> casts_;     // of new values
  size_t narrowed_ = 0;
};

}  // namespace

Result<Outcome> MixedPrecision::run(Graph& graph, PassContext& context) const {
  for (const ValueId id : graph.values()) {
    const Graph::Value value = graph.value(id);
    if (value.kind != ir::ValueKind::kParameter || !ir::is_float(value.type.dtype) || value.type.dtype == kWide) {
      continue;
    }
    Location where;
    where.node = value.name;
    return error(std::move(where), fmt::format("mixed-precision: parameter '{}' is {}; parameters must be f32",
                                               value.name, ir::str(value.type.dtype)));
  }
  Caster caster(graph, narrow_);
  Graph changed = caster.run();
  if (caster.narrowed() == 0) {
    context.warnings.push_back({{}, fmt::format("mixed-precision: no task can compute in {}", ir::str(narrow_))});
    return Outcome{};
  }
  context.remarks.push_back(
      {{}, fmt::format("{} of {} tasks compute in {}", caster.narrowed(), graph.task_count(), ir::str(narrow_))});
  graph = std::move(changed);
  return Outcome{true};
}

}  // namespace rannc::passes
