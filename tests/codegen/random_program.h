/// Random training graphs of differentiable operators.
#pragma once

#include <cstdint>

#include "ir/graph/graph.h"

namespace rannc::ir::testing {

/// Symbolic batch; inputs with samples, parameters of float64, some read by several tasks or changed before they are
/// read; up to `tasks` random operators that keep samples apart; one to three loss terms. Equal seeds, equal graphs.
Graph random_program(uint64_t seed, uint32_t tasks);

}  // namespace rannc::ir::testing
