#include "passes/loss/internal/loss_region.h"

#include <algorithm>

#include "ir/graph/rewriter.h"
#include "passes/loss/internal/body_parts.h"

namespace rannc::passes {

using ir::Graph;

std::vector<bool> region_border(const Graph& graph, Origins& origins, const std::vector<ValueId>& losses,
                                const std::vector<ValueId>& numerators) {
  const std::vector<bool> summed = needed_values(graph, numerators);
  std::vector<bool> border(graph.value_count());
  needed_values(graph, losses, [&](ValueId value) {
    // What inputs alone determine is counted, too: both must be of the same inputs. A square of which only the factors
    // are summed is none of both.
    border[value.index()] = has_samples(graph, value) && !origins.reads_total(value) && !origins.is_determined(value) &&
                            summed[value.index()];
    return border[value.index()];
  });
  return border;
}

Graph loss_region(const Graph& graph, const std::vector<bool>& border, const std::vector<ValueId>& results,
                  bool numerators) {
  std::vector<bool> needed = needed_values(graph, results, [&](ValueId value) { return border[value.index()]; });
  if (numerators) {
    for (const ir::Body& count : graph.totals().counts) {
      for (const ValueId input : count.graph().inputs())
        needed[graph.find(count.graph().value(input).name).index()] = true;
    }
  }
  ir::Rewriter rewriter(graph, needed);
  Graph& region = rewriter.graph();
  for (const ValueId input : graph.inputs()) {
    if (needed[input.index()]) region.add_input(rewriter.map(input));
  }
  // Also those that are not needed here: the region of the file's loss may read their sizes.
  for (const ValueId value : graph.values()) {
    if (!border[value.index()]) continue;
    const Graph::Value found = graph.value(value);
    const ValueId input = region.add_value(ir::ValueKind::kInput, found.name, found.type);
    region.add_input(input);
    rewriter.replace(value, input);
  }
  for (const TaskId task : graph.tasks()) {
    const auto outputs = graph.outputs(task);
    if (std::any_of(outputs.begin(), outputs.end(),
                    [&](ValueId made) { return needed[made.index()] && !border[made.index()]; }))
      rewriter.copy(task);
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
