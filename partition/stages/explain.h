/// A plan in words: why it is so, how far from the bound, why the others lost, what would help.
#pragma once

#include <string>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// A change of the cluster, and the objective of the planner's answer under it.
struct Remedy {
  std::string what;      ///< `links twice as fast`
  double objective = 0;  ///< 0: still no plan
};

/// Plans anew with twice the memory, links twice as fast, and one more device of the first node, each alone.
std::vector<Remedy> try_remedies(const StagePlanner& planner, const StageProblem& problem);

/// Several lines, each at most about 120 characters, a line break after each. Objectives are taken as ns.
std::string explain(const StagePlan& plan, const std::vector<Remedy>& remedies = {});
std::string explain(const Infeasible& none, const std::vector<Remedy>& remedies = {});

}  // namespace rannc::partition
