#include "passes/parameters/recover_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"
#include "ir/state/state_bytes.h"
#include "ir/state/statistics.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/by_use.h"
#include "passes/parameters/internal/computed_copies.h"
#include "passes/parameters/internal/computed_parameters.h"
#include "passes/parameters/internal/dropped_biases.h"
#include "passes/parameters/internal/exporter_made.h"
#include "passes/parameters/internal/folded_tensors.h"
#include "passes/parameters/internal/inverted_sources.h"
#include "passes/parameters/internal/merged_tensors.h"
#include "passes/parameters/internal/parameter_roles.h"
#include "passes/parameters/internal/shared_by_modules.h"
#include "passes/parameters/internal/tensor_origins.h"
#include "passes/parameters/internal/tied_parameters.h"
#include "passes/parameters/internal/tied_values.h"

namespace rannc::passes {

namespace {

using ir::ValueKind;

bool is_stored(ValueKind kind) {
  return kind == ValueKind::kConstant || kind == ValueKind::kParameter || kind == ValueKind::kBuffer;
}

/// Returns whether a single number has the name of a parameter, for files without a list.
bool is_named(std::string_view name, const Roles& roles) {
  return !ir::is_synthetic(name) && (roles.shaped || name.find('.') != std::string_view::npos);
}

/// Facts about all stored tensors of a graph, used to judge each of them.
struct Evidence {
  const StoredFacts& known;
  TensorOrigins origins;
};

/// Returns the kind that the file specifies for a tensor. Its uses then do not count.
std::optional<ValueKind> told_kind(const ir::Graph& graph, ValueId value, const Roles& roles,
                                   const Evidence& evidence) {
  const auto& found = graph.value(value);
  const auto& listed = evidence.known.file.listed;
  const ValueKind untrained = roles.statistics ? ValueKind::kBuffer : ValueKind::kConstant;
  if (const auto own = listed.find(std::string(found.name)); own != listed.end()) {
    const bool trained = own->second == ValueKind::kParameter && roles.role != Role::kNone;
    return trained ? ValueKind::kParameter : untrained;
  }
  // PyTorch's own files list all of their state: an unlisted tensor is a number of the code.
  if (!listed.empty() && evidence.known.file.readings.empty()) return ValueKind::kConstant;
  if (!evidence.origins.lists_parameters()) return std::nullopt;
  switch (evidence.origins.of(value)) {
    case Origin::kState:
      return roles.role == Role::kNone ? untrained : ValueKind::kParameter;
    case Origin::kNumbers:
      return untrained;
    case Origin::kParameters:
      return roles.role == Role::kNone ? untrained : ValueKind::kParameter;
    case Origin::kUnknown:
      break;
  }
  // The file lacks no parameter that it could have been computed from.
  return evidence.origins.lost().empty() ? std::optional(untrained) : std::nullopt;
}

ValueKind judge(const ir::Graph& graph, ValueId value, const Roles& roles, const Evidence& evidence) {
  const auto& found = graph.value(value);
  const StoredFacts& known = evidence.known;
  if (const auto told = told_kind(graph, value, roles, evidence)) return *told;
  const bool told = known.file.weights.contains(std::string(found.name)) && roles.role != Role::kNone;
  if (roles.role == Role::kParameter || (told && !roles.statistics)) return ValueKind::kParameter;
  if (roles.statistics) return ValueKind::kBuffer;
  if (roles.role < Role::kState) return ValueKind::kConstant;
  if (!has_several_elements(found.type)) {
    const bool counts = roles.role >= Role::kLikely && known.file.listed.empty() && is_named(found.name, roles);
    return counts ? ValueKind::kParameter : ValueKind::kConstant;
  }
  if (roles.role == Role::kState && is_uniform(graph, value)) return ValueKind::kConstant;
  return has_mask_element(found.type, found.data) ? ValueKind::kConstant : ValueKind::kParameter;
}

std::vector<bool> trained_by_use(const ir::Graph& graph, const Evidence& evidence) {
  const std::vector<Roles> roles = parameter_roles(graph);
  std::vector<bool> trained(graph.value_count());
  for (const ValueId value : graph.values()) {
    const auto& found = graph.value(value);
    const bool open = found.kind == ValueKind::kConstant && ir::is_float(found.type.dtype);
    trained[value.index()] = open ? judge(graph, value, roles[value.index()], evidence) == ValueKind::kParameter
                                  : found.kind == ValueKind::kParameter;
  }
  return trained;
}

/// By value, whether the exporter records that it computed it from parameters.
std::vector<bool> computed_from_parameters(const ir::Graph& graph, const TensorOrigins& origins) {
  std::vector<bool> computed(graph.value_count());
  for (const ValueId value : graph.values()) {
    computed[value.index()] =
        is_stored(graph.kind(value)) && !graph.producer(value).valid() && origins.of(value) == Origin::kParameters;
  }
  return computed;
}

std::set<std::string> names_of(const std::map<std::string, ValueKind>& kinds) {
  std::set<std::string> names;
  for (const auto& [name, kind] : kinds) names.insert(name);
  return names;
}

/// `a, b, c and 4 more`.
std::string listed_modules(const std::set<std::string>& names) {
  constexpr size_t kMost = 3;
  std::vector<std::string> all(names.begin(), names.end());
  if (!all.empty() && all.front().empty()) all.front() = "the model itself";
  return first_names(all, kMost);
}

/// Whether the program lists its parameters, and all readings are known to be of one of them.
bool is_told(const ir::StoredNotes& file, const std::string& name) {
  const auto found = file.readings.find(name);
  if (file.listed.empty() || found == file.readings.end() || found->second.empty()) return false;
  const std::vector<std::string>& state = found->second.front().state;
  return state.size() == 1 && std::all_of(found->second.begin(), found->second.end(),
                                          [&](const ir::Reading& reading) { return reading.state == state; });
}

Result<void> report_shared(const ir::Graph& graph, const std::vector<ValueId>& parameters, const ir::StoredNotes& file,
                           StoredFacts::Merged allowed, PassContext& context) {
  std::vector<Note> merged;
  for (const SharedByModules& shared : shared_by_modules(graph, parameters, file.readings)) {
    const std::string what =
        fmt::format("parameter {} is read by {} modules ({})", quoted_name(graph, shared.parameter),
                    shared.modules.size(), listed_modules(shared.modules));
    if (shared.merged && !is_told(file, std::string(graph.value(shared.parameter).name))) {
      merged.push_back(
          {{},
           what + ": the exporter merged parameters of equal initial values, and they are trained as one; export the "
                  "model with values that differ, as after a step of training"});
    } else {
      context.remarks.push_back({{}, what + ": one tied parameter"});
    }
  }
  for (const auto& [name, others] : file.unclear) {
    const ValueId value = graph.find(name);
    if (!value.valid() || graph.kind(value) != ValueKind::kParameter) continue;
    merged.push_back({{},
                      fmt::format("parameter {} is read where the program may read {}: the exporter merged parameters "
                                  "of equal initial values, and they are trained as one; "
                                  "torch.onnx.export(optimize=False) keeps them apart",
                                  quoted_name(graph, value), listed_modules(others))});
  }
  const size_t count = merged.size();
  return warn_or_refuse(
      std::move(merged), allowed,
      fmt::format("{} parameters of the file each represent several of the model, and nothing shows which reader has "
                  "which: --allow-merged trains them as one",
                  count),
      context);
}

void report_computed(const ir::Graph& graph, const StoredFacts& known, PassContext& context) {
  const ComputedParameters found = computed_parameters(graph, known.file);
  if (found.parameters.empty()) return;
  context.warnings.push_back(
      {{},
       fmt::format(
           "parameters of the exported program are not in the file ({}): the exporter probably "
           "computed tensors from them, which are not trained ({}); torch.onnx.export(optimize=False) keeps them",
           listed_modules(found.parameters), listed_modules(found.made))});
}

/// `state_dict` also has what no node reads. `num_batches_tracked` may be absent there.
void report_unwritten(const ir::Graph& graph, const ir::StoredNotes& file, PassContext& context) {
  std::set<std::string> held, parameters, buffers;
  for (const ir::StateTensor& tensor : ir::full_state(graph).tensors) held.insert(tensor.name);
  for (const auto& [name, kind] : file.listed) {
    if (held.contains(name) || file.transient.contains(name) || name.ends_with("num_batches_tracked")) continue;
    (kind == ValueKind::kParameter ? parameters : buffers).insert(name);
  }
  for (const auto& [names, kind] : {std::pair{parameters, "parameters"}, std::pair{buffers, "buffers"}}) {
    if (names.empty()) continue;
    context.open.push_back(
        {{},
         fmt::format("{} {} of the program's state_dict are not in the file ({}): exported weights lack them, so that "
                     "load_state_dict needs strict=False",
                     names.size(), kind, listed_modules(names))});
  }
}

void report_apart(size_t parted, size_t restored, PassContext& context) {
  if (parted > 0) {
    context.remarks.push_back(
        {{}, fmt::format("separated {} tensors that the exporter had merged with equal ones", parted)});
  }
  if (restored > 0) {
    context.remarks.push_back({{}, fmt::format("restored {} zero biases that the exporter had omitted", restored)});
  }
}

/// Whether the name of a stored tensor is one of the program's state.
bool is_of_state(const ir::StoredNotes& file, const std::string& name) {
  if (file.literals.contains(name) || file.transient.contains(name)) return false;
  if (!file.listed.empty()) return file.listed.contains(name);
  const auto found = file.readings.find(name);
  const auto says_so = [&](const ir::Reading& reading) { return reading.state == std::vector<std::string>{name}; };
  return found != file.readings.end() && std::any_of(found->second.begin(), found->second.end(), says_so);
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
bool means(const KindPattern& asked, std::string_view name, const ir::ValueType& type, const Roles& roles,
           const ir::StoredNotes& file) {
  const bool many = asked.pattern.find_first_of("*?") != std::string::npos;
  if (!many || asked.kind != ValueKind::kParameter || roles.role == Role::kParameter) return true;
  if (roles.statistics) return false;
  if (!file.literals.contains(std::string(name))) return true;
  return roles.role >= Role::kLikely && has_several_elements(type);
}

}  // namespace

/// Returns the kinds that the user specified, by value.
std::map<ValueId, ValueKind> RecoverParameters::asked(const ir::Graph& graph, const std::vector<Roles>& roles) const {
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

/// Sets the kind of every stored float tensor; returns the parameters.
std::vector<ValueId> RecoverParameters::decide(ir::Graph& graph, const std::vector<Roles>& roles, PassContext& context,
                                               Outcome& outcome) const {
  ByUse by_use;
  const Evidence evidence{known_, TensorOrigins(graph, known_.file)};
  std::vector<ValueId> parameters;
  const auto asked_for = asked(graph, roles);
  const std::set<ValueId> untrained = untrained_state(graph, known_.file, asked_for, context);
  for (const ValueId value : graph.values()) {
    const auto& found = graph.value(value);
    if (!is_stored(found.kind) || !ir::is_float(found.type.dtype)) continue;
    const Roles& votes = roles[value.index()];
    const std::string name(found.name);
    const auto given = asked_for.find(value);
    const bool decided =
        given != asked_for.end() || found.kind != ValueKind::kConstant || known_.file.literals.contains(name);
    ValueKind kind = given != asked_for.end() ? given->second
                     : decided                ? found.kind
                                              : judge(graph, value, votes, evidence);
    if (!decided && kind == ValueKind::kParameter && untrained.contains(value)) kind = ValueKind::kBuffer;
    if (!decided && votes.statistics && votes.role >= Role::kState) {
      context.remarks.push_back({{},
                                 fmt::format("{} is used as a weight and as running statistics: treated as a {}",
                                             quoted_name(graph, value), ir::str(kind))});
    }
    if (kind != found.kind) {
      graph.set_kind(value, kind);
      outcome.changed = true;
    }
    const bool used = !decided && !told_kind(graph, value, votes, evidence);
    if (used && is_left(graph, value, votes)) by_use.left.insert(name);
    if (kind != ValueKind::kParameter) continue;
    parameters.push_back(value);
    if (used) by_use.trained.insert(name);
  }
  report_by_use(by_use, context);
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
  ir::StoredNotes file = known_.file;
  const std::set<std::string> kept = names_of(known_.kinds);
  const std::vector<ComputedCopy> copies = put_back_copies(graph, file, kept);
  const Evidence evidence{known_, TensorOrigins(graph, known_.file)};
  TakenApart apart = take_apart(
      graph, {file, trained_by_use(graph, evidence), computed_from_parameters(graph, evidence.origins), known_.untied});
  for (auto& [name, readings] : apart.readings) file.readings[name] = std::move(readings);
  const size_t restored = restore_biases(graph, file);
  report_apart(apart.parted.size(), restored, context);
  const std::set<std::string> stay = stay_computed(kept);
  const bool computes = context.evaluator != nullptr;
  const auto inverted = computes ? restore_sources(graph, file, stay) : std::set<std::string>();
  const Recomputed recomputed = recompute(graph, file, stay, context.evaluator);
  report_recomputed(recomputed, context);
  context.parted = std::move(apart.parted);
  RANNC_TRY(check_kinds(graph));
  std::set<std::string> gone;
  for (const ComputedCopy& copy : copies) gone.insert(copy.name);
  RANNC_TRY(check_patterns(graph, gone));
  std::vector<Roles> roles = parameter_roles(graph);
  RANNC_TRY(report_not_recomputed(graph, recomputed.open, asked(graph, roles), roles, known_.merged, context));
  std::vector<ValueId> parameters = decide(graph, roles, context, outcome);
  RANNC_ASSIGN(const bool tied, tie_parameters(graph, parameters, {file, known_.tied, known_.untied}, context));
  if (tied) {
    roles = parameter_roles(graph);
    parameters.clear();
    for (const ValueId value : graph.values()) {
      if (graph.kind(value) == ValueKind::kParameter) parameters.push_back(value);
    }
  }
  const bool statistics = find_statistics(graph), named = name_state(graph, file);
  outcome.changed = outcome.changed || !copies.empty() || apart.changed || restored > 0 || !inverted.empty() ||
                    !recomputed.made.empty() || tied || statistics || named;
  report_weights_in_code(graph, roles, known_, context);
  report_stand_ins(graph, known_, context);
  report_computed(graph, known_, context);
  report_made(graph, file, copies, context);
  report_unwritten(graph, file, context);
  const TensorOrigins origins(graph, known_.file);
  const std::vector<bool> computed = computed_from_parameters(graph, origins);
  std::erase_if(parameters, [&](ValueId value) { return computed[value.index()]; });
  RANNC_TRY(report_shared(graph, parameters, file, known_.merged, context));
  return outcome;
}

}  // namespace rannc::passes
