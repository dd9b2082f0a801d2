/// Plans that verify, for tests of whatever reads plans.
#pragma once

#include <cstdint>

#include "ir/plan/buckets.h"
#include "ir/plan/plan.h"

namespace rannc::testing {

/// How to cut a graph.
struct PlanShape {
  uint32_t stages = 2;
  uint32_t replicas = 1;  ///< devices per stage
  uint32_t mini_batch = 7;
  uint32_t micro_batches = 3;
  bool recompute = false;  ///< in every second stage
  bool sharded = false;    ///< all stages, if they have replicas
  uint64_t bucket_bytes = ir::kBucketBytes;
};

/// Atoms of a graph, by definition.
ir::Atoms atoms_of(const ir::Graph& graph);

/// Cuts the atoms into stages of about equal numbers, two blocks each, on devices of their own, with a GPipe schedule.
/// A graph of fewer atoms gets fewer stages.
ir::Plan small_plan(ir::Graph graph, const PlanShape& shape = {});

}  // namespace rannc::testing
