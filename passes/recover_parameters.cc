#include "passes/recover_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/op.h"
#include "ir/rewriter.h"
#include "passes/internal/parameter_roles.h"
#include "passes/internal/tied_values.h"

namespace rannc::passes {

namespace {

using ir::ValueKind;

bool is_stored(ValueKind kind) {
  return kind == ValueKind::kConstant || kind == ValueKind::kParameter || kind == ValueKind::kBuffer;
}

bool has_several_elements(const ir::ValueType& type) {
  return type.shape && !(ir::element_count(*type.shape) == ir::Dim(1));
}

ValueKind judge(const ir::Graph& graph, ValueId value, const Roles& roles) {
  const auto& found = graph.value(value);
  if (roles.role == Role::kParameter) return ValueKind::kParameter;
  if (roles.statistics) return ValueKind::kBuffer;
  if (roles.role < Role::kState || !has_several_elements(found.type)) return ValueKind::kConstant;
  if (roles.role == Role::kState && is_uniform(graph, value)) return ValueKind::kConstant;
  return has_mask_element(found.type, found.data) ? ValueKind::kConstant : ValueKind::kParameter;
}

bool is_generated(std::string_view name) { return name.starts_with("onnx::"); }

/// The stored tensor that an identity renames, where a legacy export has merged tensors of equal values; else invalid.
ValueId merged_into(const ir::Graph& graph, TaskId task) {
  if (graph.op(task).name != "core.identity") return {};
  const ValueId kept = graph.inputs(task)[0], lost = graph.outputs(task)[0];
  const auto& found = graph.value(kept);
  if (!is_stored(found.kind) || !ir::is_float(found.type.dtype) || !has_several_elements(found.type)) return {};
  if (is_generated(found.name) && is_generated(graph.value(lost).name)) return {};
  const auto& outputs = graph.outputs();
  return std::find(outputs.begin(), outputs.end(), lost) == outputs.end() ? kept : ValueId();
}

/// A copy of the graph in which merged tensors are apart again, under their own names; nothing where none is merged.
std::optional<ir::Graph> take_apart(const ir::Graph& graph, size_t& restored) {
  for (const TaskId task : graph.tasks()) restored += merged_into(graph, task).valid();
  if (restored == 0) return std::nullopt;
  ir::Rewriter rewriter(graph);
  for (const TaskId task : graph.tasks()) {
    const ValueId kept = merged_into(graph, task);
    if (!kept.valid()) {
      rewriter.copy(task);
      continue;
    }
    const auto& found = graph.value(kept);
    const ValueId lost = graph.outputs(task)[0];
    rewriter.replace(lost, rewriter.graph().add_value(found.kind, graph.value(lost).name, found.type, found.data));
  }
  return std::move(rewriter).finish();
}

std::string quoted(const ir::Graph& graph, ValueId value) { return fmt::format("'{}'", graph.value(value).name); }

}  // namespace

Result<Outcome> RecoverParameters::run(ir::Graph& graph, PassContext& context) const {
  for (const auto& [name, kind] : kinds_) {
    const ValueId value = graph.find(name);
    if (!value.valid() || !is_stored(graph.value(value).kind)) {
      return error(fmt::format("recover-parameters: no stored tensor has the name '{}'", name));
    }
    if (kind == ValueKind::kParameter && !ir::is_float(graph.type(value).dtype)) {
      return error(fmt::format("recover-parameters: '{}' has integers, which cannot be trained", name));
    }
    if (!is_stored(kind)) {
      return error(fmt::format("recover-parameters: '{}' can be a parameter, a buffer or a constant", name));
    }
  }

  Outcome outcome;
  size_t restored = 0;
  if (auto apart = take_apart(graph, restored)) {
    graph = *std::move(apart);
    outcome.changed = true;
    context.remarks.push_back(
        {{}, fmt::format("{} tensors that the exporter merged with equal ones are apart again", restored)});
  }
  const std::vector<Roles> roles = parameter_roles(graph);
  std::vector<ValueId> parameters;
  size_t buffers = 0, constants = 0;
  for (const ValueId value : graph.values()) {
    const auto& found = graph.value(value);
    if (!is_stored(found.kind) || !ir::is_float(found.type.dtype)) continue;
    const Roles& votes = roles[value.index()];
    const auto given = kinds_.find(std::string(found.name));
    const bool decided = given != kinds_.end() || found.kind != ValueKind::kConstant;
    const ValueKind kind = given != kinds_.end() ? given->second : decided ? found.kind : judge(graph, value, votes);
    if (!decided && votes.statistics && votes.role >= Role::kState) {
      context.remarks.push_back({{},
                                 fmt::format("{} is used as a weight and as running statistics: taken for a {}",
                                             quoted(graph, value), ir::str(kind))});
    }
    if (kind != found.kind) {
      graph.set_kind(value, kind);
      outcome.changed = true;
    }
    if (kind == ValueKind::kParameter) parameters.push_back(value);
    buffers += kind == ValueKind::kBuffer;
    constants += kind == ValueKind::kConstant;
  }

  context.remarks.push_back(
      {{}, fmt::format("{} parameters, {} buffers, {} float constants", parameters.size(), buffers, constants)});
  for (const Tie& tie : find_ties(graph, parameters)) {
    context.remarks.push_back(
        {{},
         fmt::format("parameters {} and {} have the same values{}: perhaps one parameter", quoted(graph, tie.first),
                     quoted(graph, tie.second), tie.transposed ? ", transposed" : "")});
  }
  return outcome;
}

}  // namespace rannc::passes
