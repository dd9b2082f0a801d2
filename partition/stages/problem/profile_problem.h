/// Stage problems from published profiles.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partition/formats/pipedream_text.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

struct ProfileProblemOptions {
  uint64_t profile_batch = 1;  ///< samples at which the profile was measured
  uint64_t mini_batch = 1;     ///< samples of a step
  double optimizer_factor = 2;
  bool keep_input = false;  ///< whether `Input*` nodes are blocks
};

/// Nodes of the profile that are blocks, in the order of the blocks. Fails on a cycle, and names one of its nodes.
Result<std::vector<uint32_t>> profile_order(const PipedreamProfile& profile, bool keep_input);

/// A block per node in topological order (smallest number first), times in proportion to the samples. An output is a
/// value; it stashes as many bytes as it has. Fails on cycles and on costs that cannot be priced.
Result<StageProblem> profile_problem(const PipedreamProfile& profile, const Cluster& cluster,
                                     const ProfileProblemOptions& options);

/// The N of `pbs-N` in a file name.
std::optional<uint64_t> profile_batch_of(std::string_view file);

}  // namespace rannc::partition
