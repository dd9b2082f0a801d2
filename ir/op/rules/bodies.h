/// Helpers of operators that run bodies (`ir/graph/attributes.h`, Body): operand types, lowering, work and tape of the
/// tasks inside.
#pragma once

#include <span>

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// Fails if the inputs of the body do not match `given`. Null: the body must not read that input.
Result<void> check_operands(const Body& body, std::span<const ValueType* const> given);
/// The body with the given input types and all types inferred from them; the same body if its input types already
/// match. Assumptions of its tasks are added to `assumed`, which holds those of the graph around it.
Result<Body> fitted(const Body& body, std::span<const ValueType* const> given, std::vector<Equality>* assumed);

/// Lowers all tasks of a body. The operands of the lowering are the body's inputs.
Result<aten::Lowering> lower_body(const Body& body, DeviceType device);
/// Work of one run of a body.
Work work_of_body(const Body& body);

/// Memory that the tape keeps of one run.
struct BodyTape {
  std::vector<bool> inputs;   ///< by input of the body: whether its memory is kept
  std::vector<bool> outputs;  ///< by output: whether its memory is kept, which may be an input's
  Dim own_bytes = 0;          ///< kept values that are computed inside
  Dim workspace_bytes = 0;    ///< maximum over the tasks
};
/// `wanted`: inputs that need a gradient.
BodyTape tape_of_body(const Body& body, const std::vector<bool>& wanted);

}  // namespace rannc::ir::ops
