/// Explains a plan to the user: its bottleneck, its gap, the alternatives, possible improvements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "partition/stages/planner.h"

namespace rannc::partition {

/// A change of the cluster, and the planner's objective under it.
struct Remedy {
  std::string what;      ///< `links twice as fast`
  double objective = 0;  ///< 0: still no plan
};

/// Plans again with each of these changes alone: twice the memory, links twice as fast, one more device of the last
/// node.
std::vector<Remedy> try_remedies(const StagePlanner& planner, const StageProblem& problem);

/// Returns several lines of about 120 characters at most, each with a line break. `block_names` may be empty.
std::string explain(const StagePlan& plan, const std::vector<Remedy>& remedies = {},
                    const std::vector<std::string>& block_names = {});
/// `objective_name` is the objective of the remedies' values.
std::string explain(const Infeasible& none, const std::vector<Remedy>& remedies = {},
                    std::string_view objective_name = {});

/// Why each cut is where it is, one line per cut: `after block 3: one block earlier +1.4 %, one block later stage 1
/// needs 17179 MB of 16000 MB`. Both places are judged like any plan of the problem, compared with this one. Of plans
/// with more than 10^6 simulated actions in all or with rows by hand, nothing is judged and no line is returned.
std::vector<std::string> cut_reasons(const StageProblem& problem, const StagePlan& plan);

/// Returns `12.345 ms`, or `1.234 GB` if the objective's name states bytes.
std::string quantity(std::string_view objective_name, double value);

/// Returns `blocks 0-3 (embedding … pooler)`, with the first and last name if there are names.
std::string block_range(uint32_t first, uint32_t end, const std::vector<std::string>& block_names);

}  // namespace rannc::partition
