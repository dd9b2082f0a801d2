/// Random small stage problems for comparisons with exhaustive search.
#pragma once

#include <cstdint>
#include <random>

#include "partition/stages/problem/problem.h"

namespace rannc::partition::testing {

struct RandomOptions {
  uint32_t most_blocks = 6;
  uint32_t most_devices = 6;
  bool unequal = false;  ///< several nodes, kinds and links
  bool tight = false;    ///< memory that often does not suffice
  bool skips = false;    ///< values that jump over blocks and have several readers (a DAG, not a chain)
};

StageProblem random_problem(std::mt19937_64& random, const RandomOptions& options);

}  // namespace rannc::partition::testing
