#include "passes/parameters/internal/verdicts.h"

#include <algorithm>
#include <array>

#include "ir/state/name_source.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/tied_values.h"

namespace rannc::passes {

namespace {

using ir::Graph;
using ir::ValueKind;

/// Operators with one operand, or with numbers beside it: where only these and a `detach` stand, all is detached.
bool has_one_operand(std::string_view op) {
  constexpr std::array kOps = {"abs",      "neg",  "exp",       "sigmoid",   "tanh",  "relu",
                               "softplus", "sqrt", "slice",     "select",    "view",  "permute",
                               "t",        "view", "transpose", "unsqueeze", "clone", "_to_copy"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

/// Returns whether a single number has the name of a parameter, for files without a list.
bool is_named(std::string_view name, const Roles& roles) {
  return !ir::is_synthetic(name) && (roles.shaped || name.find('.') != std::string_view::npos);
}

}  // namespace

bool is_traced(std::string_view value) { return ir::traced_op(value) != "val"; }

bool is_stored_tensor(const Graph& graph, ValueId value, const ir::StoredNotes& file) {
  const Graph::Value& found = graph.value(value);
  return !found.producer.valid() && found.kind != ValueKind::kInput && found.kind != ValueKind::kRandomInput &&
         ir::is_float(found.type.dtype) && !file.literals.contains(std::string(found.name));
}

size_t wide_axes(const Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  const auto wide = [](const ir::Dim& dim) { return !(dim == ir::Dim(1)); };
  return shape ? static_cast<size_t>(std::count_if(shape->begin(), shape->end(), wide)) : 0;
}

Verdicts::Verdicts(const Graph& graph, const ir::StoredNotes& file)
    : graph_(graph), file_(file), of_parameters_(graph.value_count()) {
  std::set<std::string> held;
  for (const ir::StateTensor& tensor : graph.state()) {
    held.insert(tensor.name);
    if (!is_parameter(tensor.name)) continue;
    for (const ir::StatePart& part : tensor.parts) of_parameters_[part.value.index()] = true;
  }
  for (const auto& [node, bias] : file.dropped_biases) held.insert(bias);
  for (const auto& [name, kind] : file.listed) {
    if (kind != ValueKind::kParameter) continue;
    lists_parameters_ = true;
    if (!graph.find(name).valid() && !held.contains(name)) lost_.insert(name);
  }
  if (!file.listed.empty()) return;
  for (const ValueId value : graph.values()) {
    const std::string_view name = graph.value(value).name;
    if (!is_stored_tensor(graph, value, file) || ir::is_folded(name) || wide_axes(graph, value) < 2) continue;
    with_weights_.merge(modules_reading(file, name));
  }
}

bool Verdicts::is_parameter(const std::string& name) const {
  const auto found = file_.listed.find(name);
  return found != file_.listed.end() && found->second == ValueKind::kParameter;
}

const std::vector<std::string>* Verdicts::record(ValueId value) const {
  const auto found = file_.folded.find(std::string(graph_.value(value).name));
  return found == file_.folded.end() ? nullptr : &found->second;
}

/// What a call reads beside a number of the code that its translation needs is taken for that number where it is the
/// only one left: the record tells, and a single number without one is no parameter.
bool Verdicts::may_be(ValueId value, const std::vector<std::string>* record, const std::string& name) const {
  if (record != nullptr) return std::find(record->begin(), record->end(), name) != record->end();
  return graph_.value(value).name == name || !has_one_element(graph_.type(value));
}

std::vector<std::string> Verdicts::sources(ValueId value) const {
  std::vector<std::string> found;
  const auto* const names = record(value);
  if (names == nullptr) return found;
  std::copy_if(names->begin(), names->end(), std::back_inserter(found),
               [&](const std::string& name) { return is_parameter(name); });
  return found;
}

std::vector<bool> Verdicts::recorded() const {
  std::vector<bool> found(graph_.value_count());
  for (const ValueId value : graph_.values()) {
    found[value.index()] = !graph_.producer(value).valid() && record(value) && origin(value) == Origin::kDerived;
  }
  return found;
}

Origin Verdicts::origin(ValueId value) const {
  return file_.listed.empty() ? traced_origin(value) : listed_origin(value);
}

Origin Verdicts::listed_origin(ValueId value) const {
  if (of_parameters_[value.index()]) return Origin::kState;
  const auto readings = file_.readings.find(std::string(graph_.value(value).name));
  const auto* const names = record(value);
  bool named = false, parameter = false;
  if (readings != file_.readings.end()) {
    for (const ir::Reading& reading : readings->second) {
      for (const std::string& name : reading.state) {
        if (!may_be(value, names, name)) continue;
        named = true;
        parameter = parameter || is_parameter(name);
      }
    }
  }
  if (named) return parameter ? Origin::kState : Origin::kNumber;
  if (names == nullptr) return Origin::kUnknown;
  if (sources(value).empty()) return Origin::kNumber;
  bool detached = false, chain = true;
  for (const std::string& name : *names) {
    if (file_.listed.contains(name) || !is_traced(name)) continue;
    const bool stops = ir::traced_op(name) == "detach";
    detached = detached || stops;
    chain = chain && (stops || has_one_operand(ir::traced_op(name)));
  }
  return detached && chain ? Origin::kNumber : Origin::kDerived;
}

/// In a file without a list. Under names of its own, its exporter also stores weights of plain layers: transposed
/// factors of products, convolutions with the normalization behind them, gates of recurrent layers in ONNX's order.
Origin Verdicts::traced_origin(ValueId value) const {
  const std::string name(graph_.value(value).name);
  if (!is_stored_tensor(graph_, value, file_) || !ir::is_folded(name)) return Origin::kUnknown;
  const std::string_view reader = ir::reader_of_folded(name);
  bool is_weight = reader == "LSTM" || reader == "GRU" || reader == "RNN";
  if (reader == "Conv" || reader == "ConvTranspose") is_weight = is_beside_folded(value);
  if (reader == "MatMul") {
    const auto modules = modules_reading(file_, name);
    // A layer that has a weight under its own name, too, computes on it, unless the file specifies which this one is.
    const bool is_alone = std::none_of(modules.begin(), modules.end(),
                                       [&](const std::string& module) { return with_weights_.contains(module); });
    is_weight = is_alone || is_known(name);
  }
  return is_weight ? Origin::kState : Origin::kDerived;
}

/// Whether all readings record what they read.
bool Verdicts::is_known(const std::string& name) const {
  const auto found = file_.readings.find(name);
  return found != file_.readings.end() &&
         std::none_of(found->second.begin(), found->second.end(),
                      [](const ir::Reading& reading) { return reading.state.empty(); });
}

/// Normalizations are folded into weight and bias.
bool Verdicts::is_beside_folded(ValueId value) const {
  bool all = true;
  graph_.for_each_use(value, [&](Graph::Use use) {
    const auto operands = graph_.inputs(use.task);
    all = all && std::count_if(operands.begin(), operands.end(), [&](ValueId operand) {
                   return operand.valid() && ir::is_folded(graph_.value(operand).name);
                 }) > 1;
  });
  return all;
}

/// Verdict by the file alone; `by_use` if it leaves the kind open.
Verdict Verdicts::judge_by_file(ValueId value, const Roles& roles) const {
  const ValueKind untrained = roles.statistics ? ValueKind::kBuffer : ValueKind::kConstant;
  const ValueKind trained = roles.role == Role::kNone ? untrained : ValueKind::kParameter;
  const Origin of = origin(value);
  if (const auto own = file_.listed.find(std::string(graph_.value(value).name)); own != file_.listed.end())
    return {Origin::kState, own->second == ValueKind::kParameter ? trained : untrained};
  // PyTorch's own files list all of their state: an unlisted tensor is a number of the code.
  if (!file_.listed.empty() && file_.readings.empty()) return {Origin::kNumber, ValueKind::kConstant};
  if (!lists_parameters_) return {of, untrained, true};
  if (of == Origin::kNumber) return {of, untrained};
  if (of != Origin::kUnknown) return {of, trained};
  // If the file lacks no parameter, the tensor was computed from none.
  return {of, untrained, !lost_.empty()};
}

ValueKind Verdicts::kind_by_use(ValueId value, const Roles& roles) const {
  const auto& found = graph_.value(value);
  const bool weight = file_.weights.contains(std::string(found.name)) && roles.role != Role::kNone;
  if (roles.role == Role::kParameter || (weight && !roles.statistics)) return ValueKind::kParameter;
  if (roles.statistics) return ValueKind::kBuffer;
  if (roles.role < Role::kState) return ValueKind::kConstant;
  if (!has_several_elements(found.type)) {
    const bool counts = roles.role >= Role::kLikely && file_.listed.empty() && is_named(found.name, roles);
    return counts ? ValueKind::kParameter : ValueKind::kConstant;
  }
  if (roles.role == Role::kState && is_uniform(graph_, value)) return ValueKind::kConstant;
  return has_mask_element(found.type, found.data) ? ValueKind::kConstant : ValueKind::kParameter;
}

Verdict Verdicts::judge(ValueId value, const Roles& roles) const {
  Verdict verdict = judge_by_file(value, roles);
  if (verdict.by_use) verdict.kind = kind_by_use(value, roles);
  return verdict;
}

std::set<std::string> Verdicts::stand_ins() const {
  std::set<std::string> found;
  for (const ValueId value : graph_.values()) {
    const std::string name(graph_.value(value).name);
    const bool trained = graph_.kind(value) == ValueKind::kParameter && !graph_.producer(value).valid();
    if (trained && !file_.listed.contains(name) && origin(value) == Origin::kDerived) found.insert(name);
  }
  return found;
}

}  // namespace rannc::passes
