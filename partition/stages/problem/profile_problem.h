/// Builds stage problems from published profiles.
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

/// Returns the nodes of the profile that become blocks, in block order. A cycle is an error that names one of its
/// nodes.
Result<std::vector<uint32_t>> profile_order(const PipedreamProfile& profile, bool keep_input);

/// Makes each node a block, in topological order (smallest number first), with times in proportion to the samples. Each
/// node's output is a value and stashes as many bytes. Fails on cycles and on invalid costs.
Result<StageProblem> profile_problem(const PipedreamProfile& profile, const Cluster& cluster,
                                     const ProfileProblemOptions& options);

/// Returns the N of `pbs-N` in a file name.
std::optional<uint64_t> profile_batch_of(std::string_view file);

}  // namespace rannc::partition
