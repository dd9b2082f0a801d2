/// Loop rules of operators. Private to ir.
#pragma once

#include "ir/op/loop.h"

namespace rannc::ir::ops {

/// The body of a call's loop, without regard to types. Nothing: the operator or its attributes have none.
std::optional<LoopBody> loop_body(const LowerCall& call);

}  // namespace rannc::ir::ops
