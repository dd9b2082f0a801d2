#include "passes/parameters/internal/tensor_origins.h"

#include <algorithm>
#include <array>

#include "ir/state/name_source.h"

namespace rannc::passes {

namespace {

using ir::ValueKind;

/// Operators with one operand, or with numbers beside it: where only these and a `detach` stand, all is detached.
bool has_one_operand(std::string_view op) {
  constexpr std::array kOps = {"abs",      "neg",  "exp",       "sigmoid",   "tanh",  "relu",
                               "softplus", "sqrt", "slice",     "select",    "view",  "permute",
                               "t",        "view", "transpose", "unsqueeze", "clone", "_to_copy"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

}  // namespace

bool is_traced(std::string_view value) { return ir::traced_op(value) != "val"; }

TensorOrigins::TensorOrigins(const ir::Graph& graph, const ir::StoredNotes& file)
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
}

bool TensorOrigins::is_parameter(const std::string& name) const {
  const auto found = file_.listed.find(name);
  return found != file_.listed.end() && found->second == ValueKind::kParameter;
}

const std::vector<std::string>* TensorOrigins::record(ValueId value) const {
  const auto found = file_.folded.find(std::string(graph_.value(value).name));
  return found == file_.folded.end() ? nullptr : &found->second;
}

/// What a call reads beside a number of the code that its translation needs is taken for that number where it is the
/// only one left: the record tells, and a single number without one is no parameter.
bool TensorOrigins::may_be(ValueId value, const std::vector<std::string>* record, const std::string& name) const {
  if (record != nullptr) return std::find(record->begin(), record->end(), name) != record->end();
  const auto& shape = graph_.type(value).shape;
  return graph_.value(value).name == name || !(shape && ir::element_count(*shape) == ir::Dim(1));
}

std::vector<std::string> TensorOrigins::sources(ValueId value) const {
  std::vector<std::string> found;
  const auto* const names = record(value);
  if (names == nullptr) return found;
  std::copy_if(names->begin(), names->end(), std::back_inserter(found),
               [&](const std::string& name) { return is_parameter(name); });
  return found;
}

Origin TensorOrigins::of(ValueId value) const {
  if (of_parameters_[value.index()]) return Origin::kState;
  const auto readings = file_.readings.find(std::string(graph_.value(value).name));
  const auto* const names = record(value);
  bool says = false, parameter = false;
  if (readings != file_.readings.end()) {
    for (const ir::Reading& reading : readings->second) {
      for (const std::string& name : reading.state) {
        if (!may_be(value, names, name)) continue;
        says = true;
        parameter = parameter || is_parameter(name);
      }
    }
  }
  if (says) return parameter ? Origin::kState : Origin::kNumbers;
  if (names == nullptr) return Origin::kUnknown;
  if (sources(value).empty()) return Origin::kNumbers;
  bool detached = false, chain = true;
  for (const std::string& name : *names) {
    if (file_.listed.contains(name) || !is_traced(name)) continue;
    const bool stops = ir::traced_op(name) == "detach";
    detached = detached || stops;
    chain = chain && (stops || has_one_operand(ir::traced_op(name)));
  }
  return detached && chain ? Origin::kNumbers : Origin::kParameters;
}

}  // namespace rannc::passes
