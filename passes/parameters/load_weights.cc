#include "passes/parameters/load_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/state/state_bytes.h"

namespace rannc::passes {

namespace {

Diagnostic of_file(Diagnostic found, const std::string& file) {
  if (found.where.file.empty()) found.where.file = file;
  return found;
}

/// Returns the names of integer tensors that differ from the graph's.
Result<std::vector<std::string>> other_integers(const ir::Graph& graph, const ir::StateMatch& match) {
  std::vector<std::string> found;
  for (const auto& [value, sources] : match.sources) {
    const ir::Graph::Value stored = graph.value(value);
    if (ir::is_float(stored.type.dtype) || !stored.data.present()) continue;
    RANNC_ASSIGN(const ir::TensorData wanted, ir::taken_bytes(graph, value, sources, ir::stored_in(graph)));
    RANNC_ASSIGN(const auto given, wanted.read());
    RANNC_ASSIGN(const auto own, stored.data.read());
    if (given != own) found.push_back(sources.front().name);
  }
  return found;
}

}  // namespace

Result<Outcome> LoadWeights::run(ir::Graph& graph, PassContext& context) const {
  if (!given_) return Outcome{};
  const std::string& file = given_->file;
  RANNC_ASSIGN(const ir::StateMatch match,
               ir::match_state(graph, given_->tensors,
                               {.file = file, .partial = given_->partial, .converts = given_->converts}));
  const auto integers = other_integers(graph, match);
  if (!integers.ok()) return of_file(integers.diagnostic(), file);
  if (!integers->empty()) {
    return error({file, 0, 0, {}}, fmt::format("integer tensors differ from those that the model was exported with: {}",
                                               fmt::join(*integers, ", ")));
  }
  std::map<ValueId, ir::TensorData> taken;
  for (const auto& [value, sources] : match.sources) {
    if (!ir::is_float(graph.type(value).dtype)) continue;
    auto data = ir::taken_bytes(graph, value, sources, ir::stored_in(graph));
    if (!data.ok()) return of_file(data.diagnostic(), file);
    taken.emplace(value, *std::move(data));
  }
  for (auto& [value, data] : taken) graph.set_data(value, std::move(data));
  context.remarks.push_back({{}, fmt::format("loaded {} stored tensors from {}", taken.size(), file)});
  const auto warn = [&](const std::vector<std::string>& names, const char* what) {
    if (!names.empty())
      context.warnings.push_back({{}, fmt::format("{}: {} {}: {}", file, names.size(), what, fmt::join(names, ", "))});
  };
  warn(match.missing, "tensors of the model are missing and stay as they are");
  warn(match.unexpected, "tensors are unknown to the model and excluded");
  return Outcome{!taken.empty()};
}

}  // namespace rannc::passes
