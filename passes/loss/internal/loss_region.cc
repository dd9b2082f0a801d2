#include "passes/loss/internal/loss_region.h"

#include "ir/graph/rewriter.h"

namespace rannc::passes {

using ir::Graph;

namespace {

/// Calls `stops(value)` for each value that these values are computed from, without those before a value that stops.
template <class Stops>
std::vector<bool> walk(const Graph& graph, const std::vector<ValueId>& results, Stops&& stops) {
  std::vector<bool> seen(graph.value_count());
  std::vector<ValueId> open = results;
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!value.valid() || seen[value.index()]) continue;
    seen[value.index()] = true;
    const TaskId maker = graph.producer(value);
    if (!maker.valid() || stops(value)) continue;
    for (const ValueId operand : graph.inputs(maker)) open.push_back(operand);
  }
  return seen;
}

}  // namespace

std::set<std::string> region_border(const Graph& graph, Origins& origins, const std::vector<ValueId>& losses,
                                    const std::vector<ValueId>& numerators) {
  const std::vector<bool> summed = walk(graph, numerators, [](ValueId) { return false; });
  std::set<std::string> border;
  walk(graph, losses, [&](ValueId value) {
    // What inputs alone determine is counted, too: both must be of the same inputs. A square of which only the factors
    // are summed is none of both.
    const bool stops = has_samples(graph, value) && !origins.reads_total(value) && !origins.is_determined(value) &&
                       summed[value.index()];
    if (stops) border.emplace(graph.value(value).name);
    return stops;
  });
  return border;
}

Graph loss_region(const Graph& graph, const std::set<std::string>& border, const std::vector<ValueId>& results,
                  bool numerators) {
  const auto is_border = [&](ValueId value) {
    return border.contains(std::string(graph.value(value).name)) && graph.producer(value).valid();
  };
  std::vector<bool> needed = walk(graph, results, is_border);
  for (const ir::Body& count : numerators ? graph.totals().counts : std::vector<ir::Body>()) {
    for (const ValueId input : count.graph().inputs())
      needed[graph.find(count.graph().value(input).name).index()] = true;
  }
  ir::Rewriter rewriter(graph, needed);
  Graph& region = rewriter.graph();
  for (const ValueId input : graph.inputs()) {
    if (needed[input.index()]) region.add_input(rewriter.map(input));
  }
  for (const ValueId value : graph.values()) {
    if (!is_border(value))
      continue;  // also one that is not needed here: the region of the file's loss may read its size
    const Graph::Value found = graph.value(value);
    const ValueId input = region.add_value(ir::ValueKind::kInput, found.name, found.type);
    region.add_input(input);
    rewriter.replace(value, input);
  }
  for (const TaskId task : graph.tasks()) {
    const auto outputs = graph.outputs(task);
    bool copies = false;
    for (const ValueId output : outputs) copies |= needed[output.index()] && !is_border(output);
    if (copies) rewriter.copy(task);
  }
  for (const ValueId result : results) region.add_output(rewriter.map(result));
  if (!numerators) return std::move(region);
  for (ir::LossTerm term : graph.losses()) {
    term.numerator = rewriter.map(term.numerator);
    region.add_loss(std::move(term));
  }
  ir::Totals totals{.counts = graph.totals().counts, .coefficients = graph.totals().coefficients};
  for (ir::Totals::Given given : graph.totals().given) {
    if (!rewriter.mapped(given.input)) continue;
    given.input = rewriter.map(given.input);
    totals.given.push_back(given);
  }
  region.set_totals(std::move(totals));
  return std::move(region);
}

}  // namespace rannc::passes
