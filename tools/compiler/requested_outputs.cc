#include "tools/compiler/requested_outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "passes/loss/attach_loss.h"

namespace rannc::tools {

namespace {

/// Returns the outputs that losses read, in order. Returns nullopt if a loss names no output or all outputs are read.
std::optional<std::vector<ValueId>> read_outputs(const ir::Graph& graph, const std::vector<passes::LossSpec>& losses) {
  std::vector<ValueId> read, kept;
  for (const passes::LossSpec& loss : losses) {
    const auto found = passes::find_output(graph, loss);
    if (!found.ok()) return std::nullopt;
    read.push_back(*found);
  }
  for (const ValueId output : graph.outputs()) {
    if (std::find(read.begin(), read.end(), output) != read.end()) kept.push_back(output);
  }
  if (kept.empty() || kept.size() == graph.outputs().size()) return std::nullopt;
  return kept;
}

bool is_divided(const Passed& passed) { return passed.report.ok() && passed.batching.is_divisible(); }

/// Returns a note about the omitted outputs and the reason.
Note excluded_note(const ir::Graph& graph, const std::vector<ValueId>& kept, const Passed& with_all) {
  std::vector<std::string_view> names;
  for (const ValueId output : graph.outputs()) {
    if (std::find(kept.begin(), kept.end(), output) == kept.end()) names.push_back(graph.value(output).name);
  }
  const auto& failure = with_all.report.failure;
  const bool is_one = names.size() == 1;
  return {failure ? failure->where : Location{},
          fmt::format("{} {} excluded, as the loss does not read {}: {}", is_one ? "output" : "outputs",
                      fmt::format("{} {}", fmt::join(names, ", "), is_one ? "is" : "are"), is_one ? "it" : "them",
                      failure ? failure->message : "otherwise mini-batches cannot be divided")};
}

}  // namespace

Passed run_for_losses(ir::Graph graph, const std::vector<passes::LossSpec>& losses,
                      const std::function<Passed(ir::Graph)>& run) {
  const auto kept = read_outputs(graph, losses);
  if (!kept) return run(std::move(graph));
  Passed all = run(graph.clone());
  if (is_divided(all) || all.report.internal) return all;
  const Note note = excluded_note(graph, *kept, all);
  graph.set_outputs(*kept);
  Passed without = run(std::move(graph));
  if (!is_divided(without) && all.report.ok()) return all;
  without.context.open.push_back(note);
  return without;
}

}  // namespace rannc::tools
