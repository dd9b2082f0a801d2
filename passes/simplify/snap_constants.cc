#include "passes/simplify/snap_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/graph/constant.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes {

using namespace ir;  // NOLINT: reads as its neighbours

namespace {

/// Returns the shortest decimal that rounds to the same float32, if the number is a float32; else the number itself.
/// Powers of two, such as the unit of float32, stay.
double shortest_decimal(double number) {
  const auto rounded = static_cast<float>(number);
  int exponent = 0;
  if (static_cast<double>(rounded) != number || std::abs(std::frexp(number, &exponent)) == 0.5) return number;
  return std::strtod(fmt::format("{}", rounded).c_str(), nullptr);
}

/// Returns the constant of gelu that rounds to the same float32.
double meant_by_gelu(double number) {
  for (const double meant : {std::sqrt(2.0), std::sqrt(0.5), 0.044715, std::sqrt(2 / M_PI)}) {
    if (static_cast<float>(meant) == static_cast<float>(number)) return meant;
  }
  return number;
}

class Snap {
 public:
  explicit Snap(const Graph& graph) : graph_(graph) {
    for (const auto& written :
         {fusion::gelu_by_erf(fusion::Near::kAsFloat), fusion::gelu_by_tanh(fusion::Near::kAsFloat)})
      patterns_.emplace_back(either(written), meant_by_gelu);
    for (const auto& rules : {fusion::layer_norm(), fusion::rms_norm()}) {
      for (const Rewrite& rule : rules) patterns_.emplace_back(rule.pattern, shortest_decimal);
    }
  }

  /// Returns the number of changed constants.
  size_t find() {
    for (const TaskId task : graph_.tasks()) {
      if (graph_.outputs(task).empty() || graph_.type(graph_.outputs(task)[0]).dtype != DType::kF64) continue;
      find_epsilon(task);
      for (const auto& [pattern, meaning] : patterns_) {
        if (const auto found = match(graph_, task, pattern)) find_operands(*found, meaning);
      }
    }
    return operands_.size() + epsilons_.size();
  }

  Graph build() const {
    Rewriter rewriter(graph_);
    std::map<std::pair<ValueId, double>, ValueId> made;
    for (const auto& [place, exact] : operands_) {
      const ValueId old = graph_.inputs(place.first)[place.second];
      const auto [at, fresh] = made.try_emplace({old, exact});
      if (fresh) at->second = add(rewriter.graph(), old, exact);
    }
    for (const TaskId task : graph_.tasks()) copy(rewriter, task, made);
    return std::move(rewriter).finish();
  }

 private:
  using Meaning = double (*)(double);

  void find_epsilon(TaskId task) {
    const Attribute* const epsilon = graph_.attributes(task).find("epsilon");
    if (epsilon == nullptr || !std::holds_alternative<double>(*epsilon)) return;
    const double exact = shortest_decimal(std::get<double>(*epsilon));
    if (exact != std::get<double>(*epsilon)) epsilons_[task] = exact;
  }

  void find_operands(const Match& found, Meaning meaning) {
    for (const TaskId task : found.tasks()) {
      const auto operands = graph_.inputs(task);
      for (uint32_t i = 0; i < operands.size(); ++i) {
        const bool stored = operands[i].valid() && graph_.kind(operands[i]) == ValueKind::kConstant;
        const auto number = stored ? scalar_constant(graph_, operands[i]) : std::nullopt;
        if (number && meaning(*number) != *number) operands_[{task, i}] = meaning(*number);
      }
    }
  }

  ValueId add(Graph& to, ValueId old, double exact) const {
    std::string name = fmt::format("{}.snapped", graph_.value(old).name);
    for (int suffix = 1; graph_.find(name).valid() || to.find(name).valid(); ++suffix)
      name = fmt::format("{}.snapped.{}", graph_.value(old).name, suffix);
    const double numbers[] = {exact};
    return to.add_value(ValueKind::kConstant, name, graph_.type(old), encode_numbers(DType::kF64, numbers));
  }

  void copy(Rewriter& rewriter, TaskId task, const std::map<std::pair<ValueId, double>, ValueId>& made) const {
    std::vector<ValueId> operands;
    const auto inputs = graph_.inputs(task);
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      const auto place = operands_.find({task, i});
      operands.push_back(place == operands_.end() ? rewriter.map(inputs[i]) : made.at({inputs[i], place->second}));
    }
    const TaskId copied = rewriter.copy(task, operands);
    const auto epsilon = epsilons_.find(task);
    if (epsilon == epsilons_.end()) return;
    Attributes attributes = graph_.attributes(task);
    attributes.set("epsilon", epsilon->second);
    rewriter.graph().set_attributes(copied, std::move(attributes));
  }

  const Graph& graph_;
  std::vector<std::pair<Pattern, Meaning>> patterns_;
  std::map<std::pair<TaskId, uint32_t>, double> operands_;
  std::map<TaskId, double> epsilons_;
};

}  // namespace

Result<Outcome> SnapConstants::run(Graph& graph, PassContext& context) const {
  Snap snap(graph);
  const size_t count = snap.find();
  if (count == 0) return Outcome{};
  graph = snap.build();
  context.remarks.emplace_back().message =
      fmt::format("restored the exact values of {} constants that the file rounds to float32", count);
  return Outcome{true};
}

}  // namespace rannc::passes
