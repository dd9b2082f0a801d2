// Joins the parts of graph outputs that devices computed.
#include "runtime/train/internal/gather_outputs.h"

#include <algorithm>

namespace rannc::runtime {

void gather_outputs(const ir::Plan& plan, const std::vector<StepOutcome>& outcomes, const ir::Bindings& symbols,
                    StepResult& result) {
  const std::vector<ValueId>& sums = plan.graph.totals().sums;
  for (const ValueId value : plan.graph.outputs()) {
    if (std::find(sums.begin(), sums.end(), value) != sums.end()) continue;
    std::vector<const OutputPart*> parts;
    for (const StepOutcome& outcome : outcomes) {
      for (const OutputPart& part : outcome.outputs) {
        if (part.value == value) parts.push_back(&part);
      }
    }
    if (parts.empty()) continue;
    std::stable_sort(parts.begin(), parts.end(),
                     [](const OutputPart* a, const OutputPart* b) { return a->samples.first < b->samples.first; });
    const std::string name(plan.graph.value(value).name);
    const ir::BatchLayout& layout = plan.graph.type(value).batch;
    Value whole = parts[0]->part;
    if (layout.has_batch()) {
      Values pieces;
      for (const OutputPart* part : parts) {
        pieces.push_back(part->part);
        result.output_samples[name].push_back(part->samples);
      }
      const SampleAxis axis{layout.axis, layout.outer.evaluate(symbols).value_or(1),
                            layout.inner.evaluate(symbols).value_or(1)};
      whole = pieces[0]->joined(pieces, axis);
    }
    result.outputs.emplace(name, whole);
  }
}

}  // namespace rannc::runtime
