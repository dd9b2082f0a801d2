/// Helpers of the operators of the backward pass, whose operand 0 is the gradient of a result. Private to ir/op.
#pragma once

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// Fails if the gradient does not have the shape of the result.
inline Result<void> require_gradient_shape(const OpCall& call, const Shape& result) {
  RANNC_ASSIGN(const Shape found, shape_of(call, 0));
  if (taken_for_equal(call, found, result)) return {};
  return error("a gradient of shape " + str(found) + " where the result has " + str(result));
}

/// Entry of `core.<name>_grad`, whose operands are the gradient and `operands`.
inline OpInfo gradient_row(std::string_view name, std::string_view summary, std::vector<OperandInfo> operands,
                           InferRule infer, WorkRule work = elementwise_work<4>) {
  operands.insert(operands.begin(), {"gy"});
  return {.name = "core." + std::string(name) + "_grad",
          .summary = summary,
          .operands = std::move(operands),
          .infer = infer,
          .linear = always<Linear::kFirst>,
          .work = work};
}

}  // namespace rannc::ir::ops
