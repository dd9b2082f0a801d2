/// What operators that run bodies (`ir/graph/attributes.h`, Body) share: types of what goes in, lowering, work and tape
/// of the tasks inside.
#pragma once

#include <span>

#include "ir/ops/rules.h"

namespace rannc::ir::ops {

/// An error where the body does not take exactly what is handed to it: `given`, null for what it may not read.
Result<void> check_operands(const Body& body, std::span<const ValueType* const> given);
/// The body with the types of what is handed to it, and what follows from them; itself where they are what it takes.
/// What its tasks have to assume goes to `assumed`.
Result<Body> fitted(const Body& body, std::span<const ValueType* const> given, std::vector<Equality>* assumed);

/// The calls of all tasks, as a lowering whose operands are the body's inputs.
Result<aten::Lowering> lower_body(const Body& body);
/// Of one run of it.
Work work_of_body(const Body& body);

/// What the tape keeps of one run.
struct BodyTape {
  std::vector<bool> inputs;   ///< by input of the body: whether its memory is kept
  std::vector<bool> outputs;  ///< by output: whether the memory is kept that it has, or is an input's
  Dim own_bytes = 0;          ///< what is made inside and kept
  Dim workspace_bytes = 0;    ///< of the task that needs most
};
/// `wanted`: inputs that want a gradient.
BodyTape tape_of_body(const Body& body, const std::vector<bool>& wanted);

}  // namespace rannc::ir::ops
