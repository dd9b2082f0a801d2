/// A plan in words: why it is so, how far from the bound, why the others lost, what would help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// A change of the cluster, and the objective of the planner's answer under it.
struct Remedy {
  std::string what;      ///< `links twice as fast`
  double objective = 0;  ///< 0: still no plan
};

/// Plans anew with twice the memory, links twice as fast, and one more device of the last node, each alone.
std::vector<Remedy> try_remedies(const StagePlanner& planner, const StageProblem& problem);

/// Several lines, each at most about 120 characters, a line break after each. `block_names` may be empty.
std::string explain(const StagePlan& plan, const std::vector<Remedy>& remedies = {},
                    const std::vector<std::string>& block_names = {});
/// Of the objective of that name: what the remedies' numbers are.
std::string explain(const Infeasible& none, const std::vector<Remedy>& remedies = {},
                    std::string_view objective_name = {});

/// `12.345 ms`, or `1.234 GB` where the objective's name says that it counts bytes.
std::string quantity(std::string_view objective_name, double value);

/// `blocks 0-3 (embedding … pooler)`: the first and last name where there are names.
std::string block_range(uint32_t first, uint32_t end, const std::vector<std::string>& block_names);

}  // namespace rannc::partition
