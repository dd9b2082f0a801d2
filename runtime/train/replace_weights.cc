#include "runtime/train/internal/replace_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

std::vector<std::byte> bytes_of(const Value& value) {
  const at::Tensor tensor = on_host(value);
  const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {data, data + tensor.nbytes()};
}

/// Returns the names of constants that differ from those compiled into the programs, of those in `stored`.
Result<std::vector<std::string>> changed_constants(const ir::Graph& graph, const ir::StateMatch& match,
                                                   const std::set<ValueId>& stored) {
  std::vector<std::string> changed;
  for (const auto& [value, sources] : match.sources) {
    if (graph.kind(value) != ir::ValueKind::kConstant || !stored.contains(value)) continue;
    RANNC_ASSIGN(const ir::TensorData wanted, ir::taken_bytes(graph, value, sources, ir::stored_in(graph)));
    RANNC_ASSIGN(const auto given, wanted.read());
    RANNC_ASSIGN(const auto own, graph.value(value).data.read());
    if (given != own) changed.push_back(sources.front().name);
  }
  return changed;
}

}  // namespace

Result<WeightsLoaded> replace_weights(const Bundle& bundle, const std::string& path, WeightNames names,
                                      const std::map<ValueId, Values>& held) {
  const ir::Graph& graph = bundle.plan.graph;
  const auto of_file = [&](Diagnostic found) {
    if (found.where.file.empty()) found.where.file = path;
    return found;
  };
  RANNC_ASSIGN(ir::StateMatch match, match_file(graph, path, names));
  const auto changed = changed_constants(graph, match, hosted_values(bundle));
  if (!changed.ok()) return of_file(changed.diagnostic());
  if (!changed->empty()) {
    return error({path, 0, 0, {}}, fmt::format("{} tensors are constants of the compiled programs, with "
                                               "different values: {}",
                                               changed->size(), fmt::join(*changed, ", ")))
        .note("recompile the model with rannc-compile --weights");
  }
  std::map<ValueId, ir::TensorData> taken;
  for (const auto& [value, tensors] : held) {
    const auto sources = match.sources.find(value);
    if (sources == match.sources.end()) continue;
    auto data = ir::taken_bytes(graph, value, sources->second,
                                [&](ValueId) -> Result<std::vector<std::byte>> { return bytes_of(tensors.front()); });
    if (!data.ok()) return of_file(data.diagnostic());
    taken.emplace(value, *std::move(data));
  }
  for (const auto& [value, data] : taken) {
    RANNC_ASSIGN(const std::vector<std::byte> bytes, data.read());
    for (const Value& each : held.at(value)) overwrite(to_tensor(each), bytes);
  }
  return WeightsLoaded{std::move(match.missing), std::move(match.unexpected)};
}

}  // namespace rannc::runtime
