#include "tools/compiler/requested_outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "frontend/read_model.h"
#include "ir/plan/fixed_samples.h"
#include "passes/loss/attach_loss.h"

namespace rannc::tools {

Result<std::vector<std::string>> outputs_of_losses(const RequestedModel& request) {
  std::vector<std::string> names;
  for (const passes::LossSpec& loss : request.pipeline.losses) {
    if (loss.output.empty()) return std::vector<std::string>{};
    names.push_back(loss.output);
  }
  const auto& loss_graph = request.options.loss_graph;
  if (!loss_graph) return names;
  const auto loss = frontend::read_model(loss_graph->file);
  if (!loss.ok()) return std::vector<std::string>{};  // the error is reported where the loss joins the model
  for (const ValueId input : loss->graph.inputs()) names.emplace_back(loss->graph.value(input).name);
  for (const auto& [input, output] : loss_graph->inputs) names.push_back(output);
  return names;
}

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

bool is_divided(const Passed& passed) { return passed.report.ok() && !ir::fixed_samples(passed.graph); }

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
