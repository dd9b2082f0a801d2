#include "passes/parameters/internal/inverted_sources.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/state/name_source.h"
#include "passes/parameters/internal/formula_steps.h"
#include "passes/parameters/internal/verdicts.h"

namespace rannc::passes {

namespace {

using ir::Graph;

using Inverse = double (*)(double);

Inverse inverse(std::string_view traced) {
  const KnownStep* const step = known_step(ir::traced_op(traced));
  return step == nullptr ? nullptr : step->inverse;
}

/// The steps from a tensor back to its only source, or nothing if another operator may be among them.
std::vector<Inverse> steps_back(const std::string& name, const std::vector<std::string>& from,
                                const std::string& source) {
  constexpr size_t kMost = 2;  // the record of more has no order
  std::vector<Inverse> steps{inverse(name)};
  for (const std::string& each : from) {
    if (each != source) steps.push_back(inverse(each));
  }
  const bool all = std::all_of(steps.begin(), steps.end(), [](Inverse step) { return step != nullptr; });
  return all && steps.size() <= kMost ? steps : std::vector<Inverse>();
}

std::optional<std::vector<double>> apply(const Graph::Value& target, const std::vector<Inverse>& steps) {
  auto numbers = ir::decode_numbers(target.type, target.data, ir::static_count(target.type).value_or(0));
  if (!numbers.ok()) return std::nullopt;
  for (double& number : *numbers) {
    for (const Inverse step : steps) number = step(number);
    if (!std::isfinite(number)) return std::nullopt;
  }
  return *std::move(numbers);
}

}  // namespace

std::set<std::string> restore_sources(Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept) {
  if (file.folded.empty() || file.listed.empty()) return {};
  const Verdicts verdicts(graph, file);
  std::set<std::string> restored;
  for (const auto& [name, from] : file.folded) {
    const ValueId value = graph.find(name);
    if (!value.valid() || kept.contains(name) || file.listed.contains(name) || !graph.has_uses(value)) continue;
    const Graph::Value& target = graph.value(value);
    if (target.kind != ir::ValueKind::kConstant || !target.data.present()) continue;
    if (!ir::static_count(target.type) || verdicts.origin(value) != Origin::kDerived) continue;
    const std::vector<std::string> sources = verdicts.sources(value);
    if (sources.size() != 1 || !verdicts.lost().contains(sources[0]) || graph.find(sources[0]).valid()) continue;
    const std::vector<Inverse> steps = steps_back(name, from, sources[0]);
    const auto numbers = steps.empty() ? std::nullopt : apply(target, steps);
    if (!numbers) continue;
    const ir::ValueType type = target.type;
    graph.add_value(ir::ValueKind::kConstant, sources[0], type, ir::encode_numbers(type.dtype, *numbers));
    restored.insert(sources[0]);
  }
  return restored;
}

}  // namespace rannc::passes
