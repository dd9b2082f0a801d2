#include "passes/parameters/internal/folded_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/state/name_source.h"
#include "passes/parameters/internal/exporter_made.h"
#include "passes/parameters/internal/tensor_origins.h"

namespace rannc::passes {

namespace {

/// By what the exporter records.
FoldedTensors recorded(const ir::Graph& graph, const StoredFacts& known, const TensorOrigins& origins) {
  FoldedTensors folded;
  for (const auto& [name, from] : known.file.folded) {
    const ValueId value = graph.find(name);
    if (value.valid() && !graph.producer(value).valid()) {
      const bool made = graph.kind(value) == ir::ValueKind::kParameter && origins.of(value) == Origin::kParameters;
      if (made && !known.file.listed.contains(name)) folded.stand_ins.insert(name);
      continue;
    }
    const auto readings = known.file.readings.find(name);
    const auto is_parameter = [&](const std::string& source) {
      const auto listed = known.file.listed.find(source);
      return listed != known.file.listed.end() && listed->second == ir::ValueKind::kParameter;
    };
    if (readings == known.file.readings.end() || !std::any_of(from.begin(), from.end(), is_parameter)) continue;
    const auto& read = readings->second;
    if (std::all_of(read.begin(), read.end(), [](const ir::Reading& reading) { return reading.state.empty(); }))
      folded.recomputed.insert(name);
  }
  return folded;
}

}  // namespace

FoldedTensors folded_tensors(const ir::Graph& graph, const StoredFacts& known) {
  FoldedTensors folded = recorded(graph, known, TensorOrigins(graph, known.file));
  folded.stand_ins.merge(stand_ins(graph, known.file));
  for (const auto& [name, unused] : known.file.readings) {  // the other exporter records nothing
    const ValueId value = ir::is_folded(name) ? graph.find(name) : ValueId();
    if (value.valid() && graph.producer(value).valid()) folded.recomputed.insert(name);
  }
  return folded;
}

void report_stand_ins(const ir::Graph& graph, const StoredFacts& known, PassContext& context) {
  const TensorOrigins origins(graph, known.file);
  std::vector<std::string> pairs;
  for (const std::string& name : recorded(graph, known, origins).stand_ins)
    pairs.push_back(fmt::format("'{}' for '{}'", name, fmt::join(origins.sources(graph.find(name)), "', '")));
  if (pairs.empty()) return;
  context.warnings.push_back(
      {{},
       fmt::format("the exporter computed tensors from parameters that the file does not have, and they are trained in "
                   "their place ({}): torch.onnx.export(optimize=False) keeps the parameters",
                   fmt::join(pairs, ", "))});
}

Result<void> warn_or_refuse(std::vector<Note> found, StoredFacts::Merged allowed, std::string refusal,
                            PassContext& context) {
  if (found.empty()) return {};
  if (allowed == StoredFacts::Merged::kAllowed) {
    context.warnings.insert(context.warnings.end(), found.begin(), found.end());
    return {};
  }
  Diagnostic refused = error(std::move(refusal));
  refused.notes = std::move(found);
  return refused;
}

void report_recomputed(const Recomputed& found, PassContext& context) {
  if (found.made.empty()) return;
  context.remarks.push_back({{},
                             fmt::format("{} tensors that the exporter computed from parameters of the file are "
                                         "recomputed from them ({})",
                                         found.made.size(), fmt::join(found.made, ", "))});
}

Result<void> report_not_recomputed(const ir::Graph& graph, const std::vector<Recomputed::Open>& open,
                                   const std::map<ValueId, ir::ValueKind>& asked, const std::vector<Roles>& roles,
                                   StoredFacts::Merged allowed, PassContext& context) {
  std::vector<Note> found;
  for (const Recomputed::Open& each : open) {
    const ValueId value = graph.find(each.made);
    if (asked.contains(value) || roles[value.index()].role == Role::kNone) continue;
    found.push_back({{},
                     fmt::format("'{}' was computed by the exporter from '{}', which is trained too, and how could "
                                 "not be determined from their numbers: torch.onnx.export(optimize=False) keeps the "
                                 "computation; --kind {}=constant keeps the tensor as it is",
                                 each.made, fmt::join(each.sources, "', '"), each.made)});
  }
  const size_t count = found.size();
  return warn_or_refuse(
      std::move(found), allowed,
      fmt::format("{} tensors of the file were computed from parameters that are trained too, in a way that is not "
                  "known: they would diverge in training; --allow-merged trains them separately",
                  count),
      context);
}

}  // namespace rannc::passes
