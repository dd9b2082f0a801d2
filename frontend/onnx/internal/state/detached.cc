#include "frontend/onnx/internal/state/detached.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "frontend/onnx/internal/model/module_paths.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"

namespace rannc::frontend {

namespace {

using ONNX_NAMESPACE::NodeProto;

bool is_parameter(const std::string& name, const ImportNotes& notes) {
  const auto listed = notes.stored.listed.find(name);
  return listed != notes.stored.listed.end() && listed->second == ir::ValueKind::kParameter;
}

/// Whether a stored tensor is a parameter, or was computed from one.
bool may_be_trained(const std::string& name, const ImportNotes& notes) {
  const auto made = notes.stored.folded.find(name);
  return is_parameter(name, notes) || (made != notes.stored.folded.end() &&
                                       std::any_of(made->second.begin(), made->second.end(),
                                                   [&](const auto& each) { return is_parameter(each, notes); }));
}

/// Returns operand `place` if it may be the detached one, or else the only operand that may.
std::optional<size_t> pick(const std::vector<size_t>& candidates, size_t place) {
  if (std::find(candidates.begin(), candidates.end(), place) != candidates.end()) return place;
  if (candidates.size() == 1) return candidates[0];
  return std::nullopt;
}

bool has_several_elements(const ir::ValueType& type) {
  return type.shape && !(ir::element_count(*type.shape) == ir::Dim(1));
}

}  // namespace

Result<void> Detached::stop_operand(ir::Graph& graph, ValueId& operand, const Place& where) {
  notes_.remarks.push_back(
      {where, fmt::format("no gradient flows to %{}: the exported program detached it", graph.value(operand).name)});
  const std::string name = std::string(graph.value(operand).name) + ".detached";
  operand = graph.add(ir::core("stop_gradient"), {operand}, {}, name, where);
  return ir::infer_types(graph, graph.producer(operand));
}

Result<void> Detached::stop(ir::Graph& graph, const NodeProto& node, const TracedCall& call, const Place& where,
                            std::vector<ValueId>& operands) {
  const std::vector<std::string_view> named = call.values();
  const TracedValues::Unnamed unnamed = values_.read(graph, node, call, operands, module_path(node));
  if (call.is("aten.detach")) {
    const bool carries = node.op_type() == "Identity" && operands.size() == 1 && operands[0].valid() &&
                         ir::is_float(graph.type(operands[0]).dtype);
    return carries ? stop_operand(graph, operands[0], where) : Result<void>();
  }
  std::vector<size_t> candidates = unnamed.varying, constants;
  for (const size_t i : unnamed.constant)
    (may_be_trained(node.input(static_cast<int>(i)), notes_) ? candidates : constants).push_back(i);
  for (size_t place = 0; place < named.size(); ++place) {
    if (ir::traced_op(named[place]) != "detach" || values_.makes(named[place])) continue;
    const std::pair key(std::hash<std::string_view>()(call.text), std::string(named[place]));
    const auto picked = pick(candidates, place);
    if (picked || unnamed.own || !constants.empty()) {
      found_.insert(key);
    } else {
      missing_.emplace(key, where);
    }
    if (!picked) continue;
    RANNC_TRY(stop_operand(graph, operands[*picked], where));
    std::erase(candidates, *picked);
  }
  return {};
}

/// Whether a value is computed from a stored tensor that may be trained.
bool Detached::depends_on_trained(const ir::Graph& graph, ValueId value) const {
  std::vector<ValueId> left{value};
  std::set<ValueId> seen{value};
  while (!left.empty()) {
    const ValueId at = left.back();
    left.pop_back();
    const auto& found = graph.value(at);
    if (!ir::is_float(found.type.dtype)) continue;
    const std::string name(found.name);
    const bool untrained =
        notes_.stored.literals.contains(name) || (notes_.stored.listed.contains(name) && !is_parameter(name, notes_));
    if (found.kind == ir::ValueKind::kConstant && !untrained && has_several_elements(found.type)) return true;
    if (!found.producer.valid()) continue;
    for (const ValueId operand : graph.inputs(found.producer)) {
      if (operand.valid() && seen.insert(operand).second) left.push_back(operand);
    }
  }
  return false;
}

void Detached::note(const ir::Graph& graph, const ONNX_NAMESPACE::GraphProto& file) {
  values_.read_outputs(file);
  for (const auto& [key, where] : missing_) {
    if (found_.contains(key)) continue;
    notes_.warnings.push_back(
        {where, fmt::format("reads %{} of the exported program, but which operand is detached cannot be determined: "
                            "gradients flow through all of them; --stop-gradient VALUE stops one, "
                            "torch.onnx.export(optimize=False) keeps the detach",
                            key.second)});
  }
  std::vector<std::string> pairs;
  for (const MergedValue& merge : values_.merged()) {
    const ValueId value = merge.lost.empty() ? ValueId() : graph.find(merge.value);
    if (value.valid() && graph.producer(value).valid() && depends_on_trained(graph, value))
      pairs.push_back(fmt::format("%{} with %{}", merge.lost, merge.kept));
  }
  if (pairs.empty()) return;
  notes_.warnings.push_back(
      {{},
       fmt::format("the exporter merged values of the program that are equal ({}): if one of a pair is detached, or "
                   "computed from a detached value, gradients are wrong; torch.onnx.export(optimize=False) keeps both",
                   fmt::join(pairs, ", "))});
}

}  // namespace rannc::frontend
