// Finds the loop rule of a call.
#include "ir/op/loops/loops.h"

#include <algorithm>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

namespace {
constexpr int64_t kMostExact = int64_t{1} << 53;  // numbers of formulas are doubles
}

bool is_along_columns(const LowerCall& call, size_t operand) {
  const size_t rank = shape_of(*call.inputs[operand]).size();
  return rank > 0 && counted_axis(call.attributes, rank) + 1 == rank;
}

double ignored(const LowerCall& call) { return static_cast<double>(call.attributes.integer("ignore_index")); }

std::optional<LoopRule> loop_rule(const LowerCall& call) {
  for (const auto table : {elementwise_loops(), row_loops(), loss_loops()}) {
    const auto row = std::find_if(table.begin(), table.end(), [&](const LoopRow& r) { return r.name == call.op.name; });
    if (row == table.end()) continue;
    LoopRule rule{.body = (row->rule != nullptr ? row->rule(call) : row->expression).body,
                  .integers = row->integers,
                  .truths = row->truths,
                  .least_columns = row->least_columns};
    if (rule.body.empty()) return std::nullopt;
    for (LoopStatement& each : rule.body) {
      if (each.result && *each.result >= call.outputs.size()) each.result.reset();
    }
    if (row->labels) rule.labels = LoopLabels{*row->labels, call.attributes.integer("ignore_index")};
    if (rule.labels && (rule.labels->ignored > kMostExact || rule.labels->ignored < -kMostExact)) return std::nullopt;
    return rule;
  }
  return std::nullopt;
}

}  // namespace rannc::ir::ops
