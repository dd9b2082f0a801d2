/// Builds the weighted task graph that block partitioners cut.
#pragma once

#include <vector>

#include "partition/cluster.h"
#include "partition/dag.h"
#include "partition/model/model_facts.h"

namespace rannc::partition {

/// Sample counts at which atoms are priced.
struct AtomSamples {
  uint64_t reference = 1;       ///< for times and messages: a typical share of a micro-batch
  uint64_t smallest_share = 1;  ///< for memory: the smallest share that a replica can get
};

/// Builds the task graph of a model's atoms with the times of the first device kind. Task i of the Dag is atom i. The
/// time of a constant task counts once for every atom that reads it directly. Memory is a lower bound, so that no
/// feasible plan is rejected: a parameter's copies at the first atom that needs it (directly or through constant
/// tasks), and the stash of one micro-batch's smallest share.
Result<Dag> atom_dag(const ModelFacts& model, const Cluster& cluster, const AtomSamples& samples);

/// Returns the atoms that read a value, ascending.
std::vector<uint32_t> reading_atoms(const ModelFacts& model, ValueId value);

}  // namespace rannc::partition
