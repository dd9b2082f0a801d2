/// Plans made by hand for tests of codegen and runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan/buckets.h"
#include "ir/plan/plan.h"

namespace rannc::testing {

/// How to cut and run a graph.
struct PlanSpec {
  std::vector<uint32_t> cuts;      ///< first task of the second, third … stage
  std::vector<uint32_t> replicas;  ///< per stage; empty: one each
  std::vector<uint32_t> micro_batches = {1};
  bool early_backward = true;  ///< 1F1B; else GPipe
  bool recompute = false;
  bool training = true;
  bool split_backward = false;  ///< I and W instead of B
  bool sharded = false;         ///< optimizer state of stages with several replicas
  uint64_t bucket_bytes = ir::kBucketBytes;
};

/// A plan whose schedule is lowered. Tasks that depend on no input are constant and cloned where they are read.
ir::Plan build_plan(ir::Graph graph, const PlanSpec& spec);

}  // namespace rannc::testing
