#include "passes/parameters/internal/parameter_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/state/name_source.h"
#include "ir/state/state_bytes.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/computed_parameters.h"
#include "passes/parameters/internal/joined_copies.h"
#include "passes/parameters/internal/padding_rows.h"
#include "passes/parameters/internal/shared_by_modules.h"
#include "passes/parameters/internal/tied_values.h"
#include "passes/parameters/internal/verdicts.h"

namespace rannc::passes {

namespace {

using ir::ValueKind;

/// 0: may be a buffer; 1: has no name of the program; 2: has that of a layer's weight or bias.
int rank_of(std::string_view name) {
  if (ir::is_synthetic(name)) return 1;
  return name.ends_with("weight") || name.ends_with("bias") ? 2 : 0;
}

/// `a, b, c and 4 more`: all that may be buffers, as far as a line goes.
std::string listed_by_rank(const std::set<std::string>& names) {
  constexpr size_t kFewest = 3, kMost = 8;
  std::vector<std::string> all(names.begin(), names.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  const auto sure = std::find_if(all.begin(), all.end(), [](const auto& name) { return rank_of(name) > 0; });
  return first_names(all, std::clamp(static_cast<size_t>(sure - all.begin()), kFewest, kMost));
}

/// `a, b, c and 4 more`.
std::string listed_modules(const std::set<std::string>& names) {
  constexpr size_t kMost = 3;
  std::vector<std::string> all(names.begin(), names.end());
  if (!all.empty() && all.front().empty()) all.front() = "the model itself";
  return first_names(all, kMost);
}

std::string listed_tensors(const std::set<std::string>& names) {
  constexpr size_t kMost = 8;
  return first_names({names.begin(), names.end()}, kMost);
}

/// Whether the program lists its parameters, and all readings are known to be of one of them.
bool is_recorded(const ir::StoredNotes& file, const std::string& name) {
  const auto found = file.readings.find(name);
  if (file.listed.empty() || found == file.readings.end() || found->second.empty()) return false;
  const std::vector<std::string>& state = found->second.front().state;
  return state.size() == 1 && std::all_of(found->second.begin(), found->second.end(),
                                          [&](const ir::Reading& reading) { return reading.state == state; });
}

constexpr std::string_view kHow = "torch.onnx.export(do_constant_folding=False) keeps what it was computed from";

}  // namespace

/// Adds warnings if merged parameters are allowed; otherwise returns an error with the findings as notes. Does nothing
/// without findings.
Result<void> ParameterReport::warn_or_refuse(std::vector<Note> found, std::string refusal) {
  if (found.empty()) return {};
  if (known_.merged == StoredFacts::Merged::kAllowed) {
    context_.warnings.insert(context_.warnings.end(), found.begin(), found.end());
    return {};
  }
  Diagnostic refused = error(std::move(refusal));
  refused.notes = std::move(found);
  return refused;
}

void ParameterReport::apart(size_t parted, size_t restored) {
  if (parted > 0) remark(fmt::format("separated {} tensors that the exporter had merged with equal ones", parted));
  if (restored > 0) remark(fmt::format("restored {} zero biases that the exporter had omitted", restored));
}

void ParameterReport::recomputed(const std::set<std::string>& made) {
  if (made.empty()) return;
  remark(fmt::format("{} tensors that the exporter computed from parameters of the file are recomputed from them ({})",
                     made.size(), fmt::join(made, ", ")));
}

Result<void> ParameterReport::not_recomputed(const ir::Graph& graph, const std::vector<Recomputed::Open>& open,
                                             const std::map<ValueId, ValueKind>& requested,
                                             const std::vector<Roles>& roles) {
  std::vector<Note> found;
  for (const Recomputed::Open& each : open) {
    const ValueId value = graph.find(each.made);
    if (requested.contains(value) || roles[value.index()].role == Role::kNone) continue;
    found.push_back({{},
                     fmt::format("'{}' was computed by the exporter from '{}', which is trained too, and how could "
                                 "not be determined from their numbers: torch.onnx.export(optimize=False) keeps the "
                                 "computation; --kind {}=constant keeps the tensor as it is",
                                 each.made, fmt::join(each.sources, "', '"), each.made)});
  }
  const size_t count = found.size();
  return warn_or_refuse(
      std::move(found),
      fmt::format("{} tensors of the file were computed from parameters that are trained too, in a way that is not "
                  "known: they would diverge in training; --allow-merged trains them separately",
                  count));
}

void ParameterReport::untrained(const ir::Graph& graph, const UntrainedState& found) {
  std::set<std::string> names;
  for (const ValueId value : found.factors) names.emplace(graph.value(value).name);
  if (!names.empty())
    remark(fmt::format("{} tensors that only scale or mask weights are buffers ({})", names.size(),
                       listed_tensors(names)));
  for (const ValueId value : found.unowned) {
    warn(
        fmt::format("'{0}' is a row of zeros that no layer of the model owns, added to its last result: treated as a "
                    "buffer; if it is a parameter, --train {0} trains it",
                    graph.value(value).name));
  }
}

void ParameterReport::contradiction(const ir::Graph& graph, ValueId value, ValueKind kind) {
  remark(fmt::format("{} is used as a weight and as running statistics: treated as a {}", quoted_name(graph, value),
                     ir::str(kind)));
}

void ParameterReport::by_use(const ByUse& found) {
  if (!found.trained.empty()) {
    const bool one = found.trained.size() == 1;
    remark(fmt::format("{} {} trained because of {} use alone ({})", found.trained.size(),
                       one ? "tensor is" : "tensors are", one ? "its" : "their", listed_by_rank(found.trained)));
  }
  if (!found.left.empty()) {
    warn(
        fmt::format("{} tensors with names of the program are not trained because of their use alone ({}): --train "
                    "trains them",
                    found.left.size(), listed_by_rank(found.left)));
  }
}

void ParameterReport::alike(const std::vector<AlikeParameters>& found) {
  for (const AlikeParameters& each : found) {
    if (each.is_one) {
      remark(
          fmt::format("parameters '{}' and '{}' are one, according to their values and uses", each.first, each.second));
      continue;
    }
    auto& notes = each.known_apart ? context_.remarks : context_.warnings;
    notes.push_back(
        {{},
         fmt::format("parameters '{}' and '{}' have the same values{}: they are trained separately; --tie merges them",
                     each.first, each.second, each.transposed ? ", transposed" : "")});
  }
}

void ParameterReport::weights_in_code(const ir::Graph& graph, const std::vector<Roles>& roles) {
  std::set<std::string> found;
  bool weights = false;
  for (const ValueId value : graph.values()) {
    const auto& each = graph.value(value);
    const Role role = roles[value.index()].role;
    if (role < Role::kLikely || each.kind != ValueKind::kConstant || !has_several_elements(each.type)) continue;
    const std::string name(each.name);
    if (!known_.file.literals.contains(name) || known_.kinds.contains(name)) continue;
    if (role == Role::kLikely && has_mask_element(each.type, each.data)) continue;
    weights = weights || role == Role::kParameter;
    found.insert(name);
  }
  if (!weights) return;
  warn(
      fmt::format("{} numbers of the model's code are in places of weights and are not trained ({}): --train trains "
                  "them",
                  found.size(), fmt::join(found, ", ")));
}

void ParameterReport::derived(const ir::Graph& graph, const ir::StoredNotes& file,
                              const std::vector<ComputedCopy>& copies) {
  if (file.listed.empty()) return traced(graph, file, copies);
  stand_ins(graph);
  computed(graph);
}

/// Of files that record what their exporter computed.
void ParameterReport::stand_ins(const ir::Graph& graph) {
  const Verdicts verdicts(graph, known_.file);
  std::vector<std::string> pairs;
  for (const std::string& name : verdicts.stand_ins())
    pairs.push_back(fmt::format("'{}' for '{}'", name, fmt::join(verdicts.sources(graph.find(name)), "', '")));
  if (pairs.empty()) return;
  warn(
      fmt::format("the exporter computed tensors from parameters that the file does not have, and they are trained in "
                  "their place ({}): torch.onnx.export(optimize=False) keeps the parameters",
                  fmt::join(pairs, ", ")));
}

void ParameterReport::computed(const ir::Graph& graph) {
  const ComputedParameters found = computed_parameters(graph, known_.file);
  if (found.parameters.empty()) return;
  warn(fmt::format(
      "parameters of the exported program are not in the file ({}): the exporter probably computed tensors from them, "
      "which are not trained ({}); torch.onnx.export(optimize=False) keeps them",
      listed_modules(found.parameters), listed_modules(found.made)));
}

/// Of files of the tracing exporter, which records nothing.
void ParameterReport::traced(const ir::Graph& graph, const ir::StoredNotes& file,
                             const std::vector<ComputedCopy>& copies) {
  for (const ComputedCopy& copy : copies) {
    auto& notes = copy.by_a_number ? context_.warnings : context_.remarks;
    notes.push_back({{},
                     fmt::format("the exporter computed '{}' is '{}': {}{}", copy.name, copy.source, copy.form,
                                 copy.by_a_number ? ", judging by a single number" : "")});
  }
  const std::set<std::string> trained = Verdicts(graph, file).stand_ins();
  if (!trained.empty()) {
    warn(
        fmt::format("{} tensors that the exporter computed are trained in place of what they were computed from, "
                    "which the file does not have ({}): {}",
                    trained.size(), listed_tensors(trained), kHow));
  }
  for (const std::set<std::string>& names : doubtful_factors(graph, file)) {
    warn(fmt::format(
        "weights of one module ({}) have names that the exporter generated and are trained separately: this is "
        "wrong if they were computed from one parameter; {}",
        listed_tensors(names), kHow));
  }
  for (const PaddingRow& padding : padding_rows(graph)) {
    warn(fmt::format(
        "only row {1} of '{0}' is all zeros, and it is trained: if it is the embedding's padding_idx, which "
        "this exporter does not record, --padding-index {0}={1} keeps it as it is",
        padding.table, padding.row));
  }
  for (const JoinedCopy& copy : joined_copies(graph)) {
    warn(
        fmt::format("'{}' contains the numbers of '{}'{}, as if the exporter had concatenated parameters: both are "
                    "trained separately; {}",
                    copy.whole, copy.part, copy.transposed ? ", transposed" : "", kHow));
  }
  std::set<std::string> left;
  for (const ValueId value : graph.values()) {
    const std::string name(graph.value(value).name);
    const bool kept = graph.kind(value) != ValueKind::kParameter && is_stored_tensor(graph, value, file);
    if (kept && ir::is_folded(name)) left.insert(name);
  }
  if (!left.empty())
    warn(fmt::format("{} tensors that the exporter computed are not trained ({}): {}", left.size(),
                     listed_tensors(left), kHow));
}

/// `num_batches_tracked` may be absent in `state_dict`.
void ParameterReport::unwritten(const ir::Graph& graph) {
  std::set<std::string> held, parameters, buffers;
  for (const ir::StateTensor& tensor : ir::full_state(graph).tensors) held.insert(tensor.name);
  for (const auto& [name, kind] : known_.file.listed) {
    if (held.contains(name) || known_.file.transient.contains(name) || name.ends_with("num_batches_tracked")) continue;
    (kind == ValueKind::kParameter ? parameters : buffers).insert(name);
  }
  for (const auto& [names, kind] : {std::pair{parameters, "parameters"}, std::pair{buffers, "buffers"}}) {
    if (names.empty()) continue;
    context_.open.push_back(
        {{},
         fmt::format("{} {} of the program's state_dict are not in the file ({}): exported weights lack them, so that "
                     "load_state_dict needs strict=False",
                     names.size(), kind, listed_modules(names))});
  }
}

Result<void> ParameterReport::shared(const ir::Graph& graph, const std::vector<ValueId>& parameters,
                                     const ir::StoredNotes& file) {
  std::vector<Note> merged;
  for (const SharedByModules& shared : shared_by_modules(graph, parameters, file.readings)) {
    const std::string what =
        fmt::format("parameter {} is read by {} modules ({})", quoted_name(graph, shared.parameter),
                    shared.modules.size(), listed_modules(shared.modules));
    if (shared.merged && !is_recorded(file, std::string(graph.value(shared.parameter).name))) {
      merged.push_back(
          {{},
           what + ": the exporter merged parameters of equal initial values, and they are trained as one; export the "
                  "model with values that differ, as after a step of training"});
    } else {
      remark(what + ": one tied parameter");
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
      std::move(merged),
      fmt::format("{} parameters of the file each represent several of the model, and nothing shows which reader has "
                  "which: --allow-merged trains them as one",
                  count));
}

}  // namespace rannc::passes
