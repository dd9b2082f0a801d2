/// From a graph with atoms to the weighted task graph that is cut into blocks.
#pragma once

#include <vector>

#include "partition/cluster.h"
#include "partition/dag.h"
#include "partition/model/model_facts.h"

namespace rannc::partition {

/// Samples at which atoms are weighed.
struct AtomSamples {
  uint64_t reference = 1;       ///< of times and messages: a typical share of a micro-batch
  uint64_t smallest_share = 1;  ///< of memory: the fewest samples that a replica can be given
};

/// The task graph of a model's atoms: times of the first device kind. Task i of the Dag is atom i. Times of constant
/// tasks count once for every atom that reads them directly. Memory is the *necessary* one, so that nothing which some
/// plan could hold is refused: a parameter's copies at the first atom that needs it (directly or through constant
/// tasks), and the stash of one micro-batch's smallest share.
Result<Dag> atom_dag(const ModelFacts& model, const Cluster& cluster, const AtomSamples& samples);

/// Atoms that read a value, ascending.
std::vector<uint32_t> reading_atoms(const ModelFacts& model, ValueId value);

}  // namespace rannc::partition
