// Finds the loop rule of a call.
#include "ir/ops/loops/loops.h"

#include <algorithm>

namespace rannc::ir::ops {

std::optional<LoopRule> loop_rule(const LowerCall& call) {
  for (const auto table : {elementwise_loops(), row_loops(), loss_loops()}) {
    const auto row = std::find_if(table.begin(), table.end(), [&](const LoopRow& r) { return r.name == call.op.name; });
    if (row == table.end()) continue;
    std::optional<LoopBody> body = row->rule != nullptr
                                       ? row->rule(call)
                                       : LoopBody{{LoopStatement::Kind::kEach, "y0", std::string(row->expression)}};
    if (!body) return std::nullopt;
    LoopRule rule{.body = *std::move(body),
                  .integers = row->integers,
                  .truths = row->truths,
                  .least_columns = row->least_columns};
    if (row->labels) rule.labels = LoopLabels{*row->labels, call.attributes.integer("ignore_index")};
    return rule;
  }
  return std::nullopt;
}

}  // namespace rannc::ir::ops
