/// Prices the gradient sums of a replicated stage beside its backward pass.
#pragma once

#include <vector>

#include "partition/schedule/simulate.h"
#include "partition/stages/pricing/stage_bytes.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Time of all sums of a stage, and of the all-gather of a sharded one, ns.
struct SumTimes {
  double sum = 0, gather = 0;
};

/// Number of sums of a block with these bytes of gradients, which become final evenly over its backward pass: buckets
/// (`ir::choose_buckets`) as large as its gradients and the stage allow. `joined`: limit of a bucket of several
/// gradients in the stage; 0: that of the block alone, which gives the most sums.
double sums_of_block(const StageProblem& problem, uint32_t block, double bytes, double joined = 0);

/// Sums of the blocks [a, b) in the order in which the backward pass makes the gradients final: from the last block to
/// the first; a shared parameter's with its first block, or last of all and apart if other stages have it too. Large
/// blocks divide their gradients. Smaller ones are summed together within the limits of buckets, or up to the size of
/// the largest if gradients are not known one by one. `ahead[i]`: time of the backward pass of the stage's first i
/// blocks, for i = 0 … b - a. The time of all sums is divided by bytes, so that latency counts once. A gather follows
/// as a sum of its own. O(blocks of the stage + shared holdings): all but the last sum of a block count as one that
/// ends with them.
std::vector<SumCost> stage_sums(const StageProblem& problem, uint32_t a, uint32_t b, const std::vector<double>& ahead,
                                const SumTimes& times);

/// Time from the end of the backward pass to the end of the last sum, if nothing else delays them.
double exposed_ns(const std::vector<SumCost>& sums);

/// Returns at most about `most` sums of equal length that end at the same time as the given ones, however late these
/// begin: few enough to simulate, and short enough that messages do not wait for all of them.
std::vector<SumCost> even_sums(const std::vector<SumCost>& sums, uint32_t most);

}  // namespace rannc::partition
