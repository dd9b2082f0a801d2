#include "tests/codegen/joint_case.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/gradient/gradient.h"
#include "ir/gradient/vjp.h"

namespace rannc::ir::testing {

namespace {

/// Number of results of the call with those that only its gradient reads.
uint32_t results_of(const OpCase& c, const Prepared& made, const std::vector<bool>& wanted) {
  if (made.op->gradient_takes_auxiliary == nullptr) return c.outputs;
  std::vector<const ValueType*> operands, results;
  for (const Operand& operand : made.operands) operands.push_back(operand.absent ? nullptr : &operand.type);
  for (const ValueType& type : made.types) results.push_back(&type);
  uint64_t mask = 0;
  for (size_t k = 0; k < wanted.size(); ++k) mask |= uint64_t{wanted[k]} << k;
  const uint32_t more = made.op->gradient_takes_auxiliary({*made.op, operands, results, made.attributes, mask});
  return std::max(c.outputs, made.op->min_results() + more);
}

}  // namespace

Joint join(const OpCase& c, const Prepared& made, Asked requested) {
  Joint joint;
  Graph& graph = joint.graph;
  graph.set_batch_symbol("batch");
  std::vector<ValueId> operands;
  std::vector<bool> wanted;
  for (size_t k = 0; k < made.operands.size(); ++k) {
    const Operand& operand = made.operands[k];
    operands.push_back(operand.absent ? ValueId()
                                      : graph.add_value(ValueKind::kInput, "x" + std::to_string(k), operand.type));
    const bool trained = has_derivative(*made.op, k);
    wanted.push_back(!operand.absent && is_float(operand.type.dtype) && trained && (requested.wanted >> k & 1) != 0);
  }
  const uint32_t results = results_of(c, made, wanted);
  joint.task = graph.add_task(*made.op, operands, made.attributes, std::vector<std::string>(results));
  const auto typed = infer_types(graph, joint.task);
  EXPECT_TRUE(typed.ok()) << typed.diagnostic().str();
  for (uint32_t i = 0; i < results; ++i) {
    const ValueType type = graph.type(graph.outputs(joint.task)[i]);
    const bool flows =
        i < c.outputs && is_float(type.dtype) && (i == 0 || has_several_results(c)) && (requested.read >> i & 1) != 0;
    ValueType seed = type;
    seed.batch.mix = requested.mix;
    joint.seeds.push_back(flows ? graph.add_value(ValueKind::kInput, "g" + std::to_string(i), seed) : ValueId());
  }
  GradientCall call(graph, joint.task, joint.seeds, wanted);
  const bool reached = std::any_of(joint.seeds.begin(), joint.seeds.end(), [](ValueId seed) { return seed.valid(); });
  if (!reached) wanted.assign(wanted.size(), false);  // no rule is asked then
  const bool any = std::find(wanted.begin(), wanted.end(), true) != wanted.end();
  if (requested.by_vjp && any) add_vjp(call);
  joint.has_rule = !any || requested.by_vjp || (made.op->gradient != nullptr && made.op->gradient(call));
  for (size_t k = 0; k < wanted.size(); ++k) joint.given.push_back(wanted[k] ? call.given(k) : ValueId());
  return joint;
}

bool has_several_results(const OpCase& c) {
  const OpInfo& op = core(c.op);
  return c.outputs > 1 && (op.results.back().presence == Presence::kVariadic || op.min_results() > 1);
}

bool has_gradient(const OpCase& c, const Prepared& made) {
  const auto from = [](const Operand& operand) { return !operand.absent && is_float(operand.type.dtype); };
  const auto to = [](const ValueType& type) { return is_float(type.dtype); };
  return !is_of_backward_pass(c) && !made.op->makes_whole() &&
         std::any_of(made.operands.begin(), made.operands.end(), from) &&
         std::any_of(made.types.begin(), made.types.end(), to);
}

}  // namespace rannc::ir::testing
