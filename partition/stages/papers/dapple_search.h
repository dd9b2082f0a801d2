/// Implements DAPPLE's search over device sets (4.3) for one micro-batch count.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "partition/stages/papers/dapple.h"
#include "partition/stages/papers/device_set_graph.h"
#include "partition/stages/pricing/prices.h"

namespace rannc::partition {

/// The link between any two groups of a graph, computed on first use.
class GroupLinks {
 public:
  GroupLinks(const Cluster& cluster, const DeviceSetGraph& graph) : cluster_(cluster), graph_(graph) {}
  const Link& between(uint32_t from, uint32_t to);
  /// The link to all devices that `set` leaves free.
  const Link& to_rest(uint32_t from, uint32_t set);

 private:
  const Cluster& cluster_;
  const DeviceSetGraph& graph_;
  std::map<std::pair<uint32_t, uint32_t>, Link> pairs_, rests_;
};

struct DappleSearchOptions {
  EndingCredit credit = EndingCredit::kPrinted;
  bool recompute = false;  ///< in every stage
  uint32_t prefixes = 2;   ///< number kept per (blocks planned, devices used)
  uint32_t plans = 12;     ///< number of complete plans to return
};

/// Returns complete plans in order of latency L that satisfy the constraints and fit memory under the problem's
/// discipline. Repeatedly splits the last stage at one of `cuts` (ascending). Prunes a prefix that cannot improve on
/// the plans found.
std::multimap<double, StagePlan> dapple_search(const StageProblem& problem, const RangeCosts& ranges,
                                               const DeviceSetGraph& graph, GroupLinks& links,
                                               const std::vector<uint32_t>& cuts, uint64_t micro_batches,
                                               const DappleSearchOptions& options);

struct DappleCuts {
  std::vector<uint32_t> at;  ///< ascending
  size_t excluded = 0;       ///< number of omitted cuts that could matter
};

/// Selects at most `most` cuts to try. If neither work nor parameters lie between two cuts, only the one with the
/// cheaper message is kept. From the rest it takes the cheapest in each of equal parts of the work.
DappleCuts dapple_cuts(const StageProblem& problem, const RangeCosts& ranges, size_t most);

}  // namespace rannc::partition
