#include "passes/recover_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/match.h"
#include "ir/op.h"
#include "ir/rewriter.h"
#include "ir/statistics.h"
#include "passes/internal/computed_parameters.h"
#include "passes/internal/parameter_roles.h"
#include "passes/internal/shared_by_modules.h"
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

bool is_generated(std::string_view name) { return name.starts_with("onnx::"); }

/// Whether a single number has the name of a parameter, where no program lists them.
bool is_named(std::string_view name, const Roles& roles) {
  const bool generated = is_generated(name) || name.find('/') != std::string_view::npos;
  return !generated && (roles.shaped || name.find('.') != std::string_view::npos);
}

ValueKind judge(const ir::Graph& graph, ValueId value, const Roles& roles, const StoredFacts& known) {
  const auto& found = graph.value(value);
  const auto listed = known.file.listed.find(std::string(found.name));
  const bool is_listed = listed != known.file.listed.end();
  if (is_listed && listed->second == ValueKind::kParameter && roles.role != Role::kNone) return ValueKind::kParameter;
  if (is_listed) return roles.statistics ? ValueKind::kBuffer : ValueKind::kConstant;
  if (roles.role == Role::kParameter || known.file.weights.contains(std::string(found.name)))
    return ValueKind::kParameter;
  if (roles.statistics) return ValueKind::kBuffer;
  if (roles.role < Role::kState) return ValueKind::kConstant;
  if (!has_several_elements(found.type)) {
    const bool counts = roles.role >= Role::kLikely && known.file.listed.empty() && is_named(found.name, roles);
    return counts ? ValueKind::kParameter : ValueKind::kConstant;
  }
  if (roles.role == Role::kState && is_uniform(graph, value)) return ValueKind::kConstant;
  return has_mask_element(found.type, found.data) ? ValueKind::kConstant : ValueKind::kParameter;
}

/// The stored tensor that an identity renames, where a legacy export has merged tensors of equal values; else invalid.
ValueId merged_into(const ir::Graph& graph, TaskId task, const std::set<std::string>& literals) {
  static const ir::Pattern kRenamed = ir::op("identity");
  if (!ir::match(graph, task, kRenamed)) return {};
  const ValueId kept = graph.inputs(task)[0], lost = graph.outputs(task)[0];
  const auto& found = graph.value(kept);
  if (!is_stored(found.kind) || !ir::is_float(found.type.dtype) || !has_several_elements(found.type)) return {};
  if (literals.contains(std::string(found.name))) return {};
  if (is_generated(found.name) && is_generated(graph.value(lost).name)) return {};
  const auto& outputs = graph.outputs();
  return std::find(outputs.begin(), outputs.end(), lost) == outputs.end() ? kept : ValueId();
}

/// A copy of the graph in which merged tensors are apart again, under their own names; nothing where none is merged.
std::optional<ir::Graph> take_apart(const ir::Graph& graph, const std::set<std::string>& literals, size_t& restored) {
  for (const TaskId task : graph.tasks()) restored += merged_into(graph, task, literals).valid();
  if (restored == 0) return std::nullopt;
  ir::Rewriter rewriter(graph);
  for (const TaskId task : graph.tasks()) {
    const ValueId kept = merged_into(graph, task, literals);
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

/// `a, b, c and 4 more`.
std::string listed(const std::set<std::string>& names) {
  constexpr size_t kMost = 3;
  std::string text;
  size_t shown = 0;
  for (const std::string& name : names) {
    if (shown == kMost) break;
    text += fmt::format("{}{}", shown++ == 0 ? "" : ", ", name.empty() ? "the model itself" : name);
  }
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

void report_shared(const ir::Graph& graph, const std::vector<ValueId>& parameters, const Readers& readers,
                   PassContext& context) {
  for (const SharedByModules& shared : shared_by_modules(graph, parameters, readers)) {
    const std::string what = fmt::format("parameter {} is read by {} modules ({})", quoted(graph, shared.parameter),
                                         shared.modules.size(), listed(shared.modules));
    if (shared.merged) {
      context.warnings.push_back(
          {{},
           what + ": the exporter merged parameters of equal initial values, and they are trained as one; export the "
                  "model with values that differ, as after a step of training"});
    } else {
      context.remarks.push_back({{}, what + ": one tied parameter"});
    }
  }
}

/// Weights that an exporter wrote as numbers of the model's code, as a frozen TorchScript module's are.
void report_weights_in_code(const ir::Graph& graph, const std::vector<Roles>& roles, const StoredFacts& known,
                            PassContext& context) {
  std::set<std::string> found;
  for (const ValueId value : graph.values()) {
    const bool weight = roles[value.index()].role == Role::kParameter && has_several_elements(graph.type(value));
    if (!weight || graph.value(value).kind != ValueKind::kConstant) continue;
    const std::string name(graph.value(value).name);
    if (known.file.literals.contains(name) && !known.kinds.contains(name)) found.insert(name);
  }
  if (found.empty()) return;
  context.open.push_back(
      {{},
       fmt::format("{} numbers of the model's code stand where weights stand and are not trained ({}): --kind says "
                   "otherwise",
                   found.size(), listed(found))});
}

void report_computed(const ir::Graph& graph, const ir::StoredNotes& file, PassContext& context) {
  const ComputedParameters found = computed_parameters(graph, file);
  if (found.parameters.empty()) return;
  context.open.push_back(
      {{},
       fmt::format(
           "parameters of the exported program that are no tensors of the file ({}): the exporter seems to have "
           "computed on them, and what it made is not trained ({}); torch.onnx.export(optimize=False) keeps them",
           listed(found.parameters), listed(found.made))});
}

void report_ties(const ir::Graph& graph, const std::vector<ValueId>& parameters, PassContext& context) {
  for (const Tie& tie : find_ties(graph, parameters)) {
    context.open.push_back(
        {{},
         fmt::format("parameters {} and {} have the same values{}: perhaps one parameter", quoted(graph, tie.first),
                     quoted(graph, tie.second), tie.transposed ? ", transposed" : "")});
  }
}

}  // namespace

Result<void> RecoverParameters::check_kinds(const ir::Graph& graph) const {
  for (const auto& [name, kind] : known_.kinds) {
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
  return {};
}

namespace {

/// Whether the graph said something else before.
bool find_statistics(ir::Graph& graph) {
  std::vector<ir::Statistics> found;
  for (const TaskId task : graph.tasks()) {
    const auto statistics = ir::statistics_by_entry(graph, task);
    if (statistics && statistics->mean.valid() && statistics->variance.valid()) found.push_back(*statistics);
  }
  const bool changed = found != graph.statistics();
  graph.set_statistics(std::move(found));
  return changed;
}

}  // namespace

/// Sets the kind of every stored float tensor; returns the parameters.
std::vector<ValueId> RecoverParameters::decide(ir::Graph& graph, const std::vector<Roles>& roles, PassContext& context,
                                               Outcome& outcome) const {
  std::vector<ValueId> parameters;
  for (const ValueId value : graph.values()) {
    const auto& found = graph.value(value);
    if (!is_stored(found.kind) || !ir::is_float(found.type.dtype)) continue;
    const Roles& votes = roles[value.index()];
    const std::string name(found.name);
    const auto given = known_.kinds.find(name);
    const bool decided =
        given != known_.kinds.end() || found.kind != ValueKind::kConstant || known_.file.literals.contains(name);
    const ValueKind kind = given != known_.kinds.end() ? given->second
                           : decided                   ? found.kind
                                                       : judge(graph, value, votes, known_);
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
  }
  return parameters;
}

Result<Outcome> RecoverParameters::run(ir::Graph& graph, PassContext& context) const {
  RANNC_TRY(check_kinds(graph));
  Outcome outcome;
  size_t restored = 0;
  if (auto apart = take_apart(graph, known_.file.literals, restored)) {
    graph = *std::move(apart);
    outcome.changed = true;
    context.remarks.push_back(
        {{}, fmt::format("{} tensors that the exporter merged with equal ones are apart again", restored)});
  }
  const std::vector<Roles> roles = parameter_roles(graph);
  const std::vector<ValueId> parameters = decide(graph, roles, context, outcome);
  outcome.changed = find_statistics(graph) || outcome.changed;
  report_weights_in_code(graph, roles, known_, context);
  report_computed(graph, known_.file, context);
  report_shared(graph, parameters, known_.file.readers, context);
  report_ties(graph, parameters, context);
  return outcome;
}

}  // namespace rannc::passes
