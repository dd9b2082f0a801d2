/// Implements PipeDream's hierarchical bottleneck DP (SOSP 2019), for reproduction and as a rival.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "partition/formats/pipedream_text.h"
#include "partition/stages/planner.h"

namespace rannc::partition {

/// Cuts of a model. State i is a down-set; `before[i]` lists the states strictly inside it, ascending. States are in
/// topological order, and the last one is the whole model. Quantities are those of the whole down-set.
struct CutStates {
  std::vector<double> compute_s, parameter_bytes;
  std::vector<double> output_bytes;  ///< bytes that cross the cut in one direction
  std::vector<std::vector<uint32_t>> before;
  bool complete = true;  ///< false: prefixes of one order only, because there were too many states
  uint32_t size() const { return static_cast<uint32_t>(compute_s.size()); }
};

/// Returns by node whether PipeDream's optimizer has the layer: `Input*` sources and `__getitem__` sinks are left out.
std::vector<char> optimized_layers(const PipedreamProfile& profile);

/// Returns the antichain states of PipeDream's optimizer, without `Input*` sources and `__getitem__` sinks. A cut's
/// output follows the released program: activations of the *augmented* antichain, which also counts a value whose
/// readers are all inside if one of them is not an ancestor of another member. Beyond `most_states` (wide graphs have
/// millions) the prefixes of a topological order are used instead.
Result<CutStates> cut_states(const PipedreamProfile& profile, uint32_t most_states = 2000);

/// Returns the states of a chain of blocks: cut positions, with the values that are live across each.
CutStates chain_states(const StageProblem& problem, uint64_t samples);

/// Number of machines on a level and the bandwidth between them; levels are listed from the inside out.
struct PipedreamLevel {
  uint32_t machines = 1;
  double bytes_per_second = 1;
};

struct PipedreamOptions {
  bool straight = false;  ///< one machine per stage
  bool transfers = true;  ///< the released program prices transfers only if a compression ratio is given
};

/// States after `from` up to `to` (from = 0: from the start), as half-open state numbers [from, to).
struct PipedreamStage {
  uint32_t from = 0, to = 0;
  uint32_t replicas = 1;
  std::vector<PipedreamStage> inner;  ///< the plan within one of its machines; empty on the innermost level
};

struct PipedreamPlan {
  double bottleneck_s = 0;
  std::vector<PipedreamStage> stages;
};

/// A[i][j][m] of the paper on every level, from the inside out. O(levels * states^3 * machines^2); with one level
/// O(states^2 * machines^2). On one level, exact for its own objective over the given states.
PipedreamPlan pipedream_dp(const CutStates& states, const std::vector<PipedreamLevel>& levels,
                           const PipedreamOptions& options = {});

/// Planner that runs the DP over the block chain, on the levels of the cluster (devices of a node, then nodes), or on
/// one flat level if nodes differ. Plans each micro-batch candidate and takes the least simulated time.
std::unique_ptr<StagePlanner> pipedream_planner();

}  // namespace rannc::partition
