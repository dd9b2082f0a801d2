// Finds the loop rule of a call.
#include "ir/op/loops/loops.h"

#include <algorithm>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

bool is_along_columns(const LowerCall& call, size_t operand) {
  const size_t rank = shape_of(*call.inputs[operand]).size();
  return rank > 0 && counted_axis(call.attributes, rank) + 1 == rank;
}

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
