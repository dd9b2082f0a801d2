#include "passes/parameters/recover_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"
#include "ir/state/statistics.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/computed_copies.h"
#include "passes/parameters/internal/dropped_biases.h"
#include "passes/parameters/internal/inverted_sources.h"
#include "passes/parameters/internal/merged_tensors.h"
#include "passes/parameters/internal/parameter_report.h"
#include "passes/parameters/internal/tied_values.h"
#include "passes/parameters/internal/verdicts.h"

namespace rannc::passes {

namespace {

using ir::ValueKind;

bool is_stored(ValueKind kind) {
  return kind == ValueKind::kConstant || kind == ValueKind::kParameter || kind == ValueKind::kBuffer;
}

std::set<std::string> names_of(const std::map<std::string, ValueKind>& kinds) {
  std::set<std::string> names;
  for (const auto& [name, kind] : kinds) names.insert(name);
  return names;
}

std::vector<bool> trained_by_use(const ir::Graph& graph, const Verdicts& verdicts) {
  const std::vector<Roles> roles = parameter_roles(graph);
  std::vector<bool> trained(graph.value_count());
  for (const ValueId value : graph.values()) {
    const auto& found = graph.value(value);
    const bool open = found.kind == ValueKind::kConstant && ir::is_float(found.type.dtype);
    const ValueKind kind = open ? verdicts.judge(value, roles[value.index()]).kind : found.kind;
    trained[value.index()] = kind == ValueKind::kParameter;
  }
  return trained;
}

/// Whether the name of a stored tensor is one of the program's state.
bool is_of_state(const ir::StoredNotes& file, const std::string& name) {
  if (file.literals.contains(name) || file.transient.contains(name)) return false;
  if (!file.listed.empty()) return file.listed.contains(name);
  const auto found = file.readings.find(name);
  const auto is_own = [&](const ir::Reading& reading) { return reading.state == std::vector<std::string>{name}; };
  return found != file.readings.end() && std::any_of(found->second.begin(), found->second.end(), is_own);
}

/// Untrained tensors that the program keeps belong to its state, too; a tensor that also has other names has its own. A
/// tensor of state that is a whole value of the same name needs no entry. Untrained numbers that the exporter named are
/// not state.
bool name_state(ir::Graph& graph, const ir::StoredNotes& file) {
  std::vector<ir::StateTensor> state = graph.state();
  std::erase_if(state, [&](const ir::StateTensor& tensor) {
    const auto& found = graph.value(tensor.parts[0].value);
    const bool whole =
        tensor.parts.size() == 1 && ir::is_whole(graph, tensor.parts[0]) && tensor.shape == tensor.parts[0].extent;
    return (found.name == tensor.name && whole) ||
           (found.kind == ValueKind::kConstant && !is_of_state(file, std::string(found.name)));
  });
  std::vector<bool> held(graph.value_count());
  std::set<std::string> names;
  for (const ir::StateTensor& tensor : state) {
    names.insert(tensor.name);
    for (const ir::StatePart& part : tensor.parts) held[part.value.index()] = true;
  }
  for (const ValueId value : graph.values()) {
    const auto& found = graph.value(value);
    const std::string name(found.name);
    if (!is_stored(found.kind) || names.contains(name) || !ir::static_count(found.type)) continue;
    const bool needs_line = found.kind == ValueKind::kConstant || held[value.index()];
    if (needs_line && is_of_state(file, name))
      state.push_back(ir::state_of(graph, name, value, ir::whole(graph, value).axes));
  }
  const bool changed = state != graph.state();
  graph.set_state(std::move(state));
  return changed;
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

/// Returns whether the graph had another entry before.
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

Result<void> RecoverParameters::check_patterns(const ir::Graph& graph, const std::set<std::string>& gone) const {
  const StateNames names(graph);
  std::vector<std::string> all = known_.tied;
  all.insert(all.end(), known_.untied.begin(), known_.untied.end());
  for (const KindPattern& each : known_.patterns) all.push_back(each.pattern);
  for (const std::string& pattern : all) {
    bool found = fits_any(gone, pattern);
    for (const ValueId value : graph.values()) {
      const auto& each = graph.value(value);
      found = found || (is_stored(each.kind) && ir::is_float(each.type.dtype) && names.match_any(pattern, value));
    }
    if (!found)
      return error(fmt::format("recover-parameters: no stored float tensor has a name that matches '{}'", pattern));
  }
  return {};
}

namespace {

/// Whether a pattern for many names means a tensor to be trained: running statistics and numbers that stand where
/// no weight stands are named one by one.
bool means(const KindPattern& requested_kinds, std::string_view name, const ir::ValueType& type, const Roles& roles,
           const ir::StoredNotes& file) {
  const bool many = requested_kinds.pattern.find_first_of("*?") != std::string::npos;
  if (!many || requested_kinds.kind != ValueKind::kParameter || roles.role == Role::kParameter) return true;
  if (roles.statistics) return false;
  if (!file.literals.contains(std::string(name))) return true;
  return roles.role >= Role::kLikely && has_several_elements(type);
}

}  // namespace

/// Returns the kinds that the user specified, by value.
std::map<ValueId, ValueKind> RecoverParameters::requested_kinds(const ir::Graph& graph,
                                                                const std::vector<Roles>& roles) const {
  std::map<ValueId, ValueKind> kinds;
  for (const auto& [name, kind] : known_.kinds) kinds[graph.find(name)] = kind;
  if (known_.patterns.empty()) return kinds;
  const StateNames names(graph);
  for (const KindPattern& each : known_.patterns) {
    for (const ValueId value : graph.values()) {
      const auto& found = graph.value(value);
      if (!is_stored(found.kind) || !ir::is_float(found.type.dtype) || !names.match_any(each.pattern, value)) continue;
      const Roles& votes = roles[value.index()];
      const bool statistics = each.kind == ValueKind::kParameter && votes.statistics;
      if (means(each, found.name, found.type, votes, known_.file)) {
        kinds[value] = each.kind;
      } else if (statistics) {
        kinds[value] = ValueKind::kBuffer;
      }
    }
  }
  return kinds;
}

namespace {

/// Whether an untrained tensor has a name that no exporter generates and interacts with data. A learned threshold does;
/// so does the mean of the samples. If the file lists its parameters, a name without a module is not one of them.
bool is_left(const ir::Graph& graph, ValueId value, const Roles& roles, const ir::StoredNotes& file) {
  const auto& found = graph.value(value);
  const bool named =
      !ir::is_synthetic(found.name) && (file.listed.empty() || found.name.find('.') != std::string_view::npos);
  return found.kind == ValueKind::kConstant && roles.role == Role::kConstant && !roles.statistics && named &&
         has_several_elements(found.type) && !has_mask_element(found.type, found.data);
}

}  // namespace

/// Sets the kind of every stored float tensor; returns the parameters.
std::vector<ValueId> RecoverParameters::decide(ir::Graph& graph, const std::vector<Roles>& roles, PassContext& context,
                                               Outcome& outcome) const {
  ParameterReport report(known_, context);
  ByUse by_use;
  const Verdicts verdicts(graph, known_.file);
  std::vector<ValueId> parameters;
  const auto requested = requested_kinds(graph, roles);
  const UntrainedState untrained = untrained_state(graph, known_.file, requested);
  report.untrained(graph, untrained);
  for (const ValueId value : graph.values()) {
    const auto& found = graph.value(value);
    if (!is_stored(found.kind) || !ir::is_float(found.type.dtype)) continue;
    const Roles& votes = roles[value.index()];
    const std::string name(found.name);
    const auto given = requested.find(value);
    const bool decided =
        given != requested.end() || found.kind != ValueKind::kConstant || known_.file.literals.contains(name);
    Verdict verdict = decided ? Verdict{.kind = found.kind} : verdicts.judge(value, votes);
    if (given != requested.end()) verdict.kind = given->second;
    const bool buffer = untrained.factors.contains(value) || untrained.unowned.contains(value);
    if (!decided && verdict.kind == ValueKind::kParameter && buffer) verdict.kind = ValueKind::kBuffer;
    if (!decided && votes.statistics && votes.role >= Role::kState) report.contradiction(graph, value, verdict.kind);
    if (verdict.kind != found.kind) {
      graph.set_kind(value, verdict.kind);
      outcome.changed = true;
    }
    if (verdict.by_use && is_left(graph, value, votes, known_.file)) by_use.left.insert(name);
    if (verdict.kind != ValueKind::kParameter) continue;
    parameters.push_back(value);
    if (verdict.by_use) by_use.trained.insert(name);
  }
  report.by_use(by_use);
  return parameters;
}

/// A tensor that the exporter computed stays separate even if a user unties it.
std::set<std::string> RecoverParameters::stay_computed(std::set<std::string> kept) const {
  for (const auto& [name, unused] : known_.file.folded) {
    const auto unties = [&](const std::string& pattern) { return fits_any({name}, pattern); };
    if (std::any_of(known_.untied.begin(), known_.untied.end(), unties)) kept.insert(name);
  }
  return kept;
}

Result<Outcome> RecoverParameters::run(ir::Graph& graph, PassContext& context) const {
  Outcome outcome;
  ParameterReport report(known_, context);
  ir::StoredNotes file = known_.file;
  const std::set<std::string> kept = names_of(known_.kinds);
  const std::vector<ComputedCopy> copies = put_back_copies(graph, file, kept);
  const Verdicts verdicts(graph, known_.file);
  TakenApart apart = take_apart(graph, {file, trained_by_use(graph, verdicts), verdicts.recorded(), known_.untied});
  for (auto& [name, readings] : apart.readings) file.readings[name] = std::move(readings);
  const size_t restored = restore_biases(graph, file);
  report.apart(apart.parted.size(), restored);
  const std::set<std::string> stay = stay_computed(kept);
  const bool computes = context.evaluator != nullptr;
  const auto inverted = computes ? restore_sources(graph, file, stay) : std::set<std::string>();
  const Recomputed recomputed = recompute(graph, file, stay, context.evaluator);
  report.recomputed(recomputed.made);
  context.parted = std::move(apart.parted);
  RANNC_TRY(check_kinds(graph));
  std::set<std::string> gone;
  for (const ComputedCopy& copy : copies) gone.insert(copy.name);
  RANNC_TRY(check_patterns(graph, gone));
  std::vector<Roles> roles = parameter_roles(graph);
  RANNC_TRY(report.not_recomputed(graph, recomputed.open, requested_kinds(graph, roles), roles));
  std::vector<ValueId> parameters = decide(graph, roles, context, outcome);
  RANNC_ASSIGN(const TiedParameters tied,
               tie_parameters(graph, parameters, {file, known_.tied, known_.untied, context.parted}));
  report.alike(tied.alike);
  if (tied.changed) {
    roles = parameter_roles(graph);
    parameters.clear();
    for (const ValueId value : graph.values()) {
      if (graph.kind(value) == ValueKind::kParameter) parameters.push_back(value);
    }
  }
  const bool statistics = find_statistics(graph), named = name_state(graph, file);
  outcome.changed = outcome.changed || !copies.empty() || apart.changed || restored > 0 || !inverted.empty() ||
                    !recomputed.made.empty() || tied.changed || statistics || named;
  report.weights_in_code(graph, roles);
  report.derived(graph, file, copies);
  report.unwritten(graph);
  const std::vector<bool> computed = Verdicts(graph, known_.file).recorded();
  std::erase_if(parameters, [&](ValueId value) { return computed[value.index()]; });
  RANNC_TRY(report.shared(graph, parameters, file));
  return outcome;
}

FoldedTensors folded_tensors(const ir::Graph& graph, const StoredFacts& known) {
  const ir::StoredNotes& file = known.file;
  FoldedTensors folded{Verdicts(graph, file).stand_ins(), {}};
  const auto is_computed = [&](const std::string& name) {
    const ValueId value = graph.find(name);
    return file.readings.contains(name) && (!value.valid() || graph.producer(value).valid());
  };
  const auto is_parameter = [&](const std::string& name) {
    const auto listed = file.listed.find(name);
    return listed != file.listed.end() && listed->second == ValueKind::kParameter;
  };
  const auto is_unknown = [](const ir::Reading& reading) { return reading.state.empty(); };
  for (const auto& [name, from] : file.folded) {
    if (!is_computed(name) || std::none_of(from.begin(), from.end(), is_parameter)) continue;
    const auto& readings = file.readings.at(name);
    if (std::all_of(readings.begin(), readings.end(), is_unknown)) folded.recomputed.insert(name);
  }
  // The tracing exporter records nothing: the names of tasks show what they compute (`onnx::Clip_3`, `onnx::Clip_3.1`).
  for (const ValueId value : graph.values()) {
    const std::string name(graph.value(value).name);
    if (!graph.producer(value).valid() || !ir::is_folded(name)) continue;
    for (const std::string& each : {name, name.substr(0, name.rfind('.'))}) {
      if (is_computed(each)) folded.recomputed.insert(each);
    }
  }
  return folded;
}

}  // namespace rannc::passes
