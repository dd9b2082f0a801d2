/// Random graphs as exporters write them: with a symbol for the number of samples, or with the number itself.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph/graph.h"

namespace rannc::ir::testing {

/// A program of equal seed is the same function with and without `baked`: what it says of samples is then a number in
/// shapes, masks that are repeated for each, tables of their numbers, states and tokens stretched to so many; of one
/// sample, tokens are not stretched. Values are [batch, 3, 4], [3, batch, 4], [3 * batch, 4] or [2 * batch, 3, 2];
/// inputs `x` (float64) and `places` (integers from 0 to 2); the output is [batch, 12].
Graph baked_program(uint64_t seed, uint32_t tasks, std::optional<int64_t> baked);

}  // namespace rannc::ir::testing
