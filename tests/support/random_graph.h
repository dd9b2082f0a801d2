/// Random graphs that verify, for property tests.
#pragma once

#include <cstdint>

#include "ir/graph/graph.h"

namespace rannc::testing {

/// Shares are in percent of the tasks. The same options give the same graph.
struct RandomGraph {
  uint64_t seed = 0;
  uint32_t tasks = 30;           ///< about this many
  uint32_t constant_share = 20;  ///< tasks that read no activation: chains over parameters and constants
  uint32_t split_share = 10;     ///< tasks with two outputs
  uint32_t span = 8;             ///< an operand is at most about this many activations old
  uint32_t outputs = 2;          ///< beside the last activation; a constant one may be among them
};

/// Tasks on activations [batch, 4], weights [4, 4] and vectors [4]; types are inferred, some tasks are dead, some
/// values are read many times, and names are odd. No losses.
ir::Graph random_graph(const RandomGraph& options);

}  // namespace rannc::testing
