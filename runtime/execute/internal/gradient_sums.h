/// Sums of gradients and statistics over devices at the end of a step.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/schedule/dependencies.h"
#include "runtime/execute/pipeline.h"
#include "runtime/execute/program.h"
#include "runtime/internal/router.h"
#include "runtime/internal/share_exchange.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// The collectives of one device's row. Waiting time is added to the router.
class GradientSums {
 public:
  /// `programs`: by stage. All arguments must outlive it.
  GradientSums(const Pipeline& pipeline, const ir::Dependencies& dependencies, const std::vector<Program*>& programs,
               Transport& transport, Router& router);

  /// AR: sums gradients, then statistics. A call of the transport sums a bucket of gradients, of at most `bucket_bytes`
  /// and not more than the largest gradient, so that buckets need no memory that a single gradient would not. Skips
  /// shared parameters: their group has its own sum over all replicas of all its stages.
  Result<void> all_reduce(const ir::Action& action, uint64_t step, uint64_t bucket_bytes);
  /// RS: adds the gradients of this device's stages of the group, then sums over devices.
  Result<void> reduce_shared(const ir::Action& action, uint64_t step);
  /// SC: sums each gradient on the owner of its share (`ShareExchange::reduce_scatter`), then statistics on all.
  Result<void> reduce_scatter(const ir::Action& action, uint64_t step);
  /// AG: copies each replica's share of the stage's parameters to the others.
  Result<void> all_gather(StageId stage, uint64_t step);
  /// Selects the one holder that keeps a sum for the next step: the first replica and, for a shared parameter, its
  /// first stage.
  Carried carried(StageId stage) const;

 private:
  DeviceId device() const { return transport_.device(); }
  Program& program(StageId stage) const { return *programs_[stage.index()]; }
  /// Returns the index of a group's parameter in one of its stages.
  uint32_t slot(uint32_t group, StageId stage) const;
  /// Parameters of a stage that belong to groups.
  std::set<uint32_t> in_groups(StageId stage) const;
  Result<Values> summed(const CollectiveKey& key, const ir::Action& action, Values values);
  /// Divides the parameters that AR sums into buckets: each into the first with room for it.
  std::vector<std::vector<uint32_t>> make_buckets(StageId stage, uint64_t bucket_bytes) const;
  /// The same, made once.
  const std::vector<std::vector<uint32_t>>& buckets(StageId stage, uint64_t bucket_bytes);
  Result<void> sum_bucket(const CollectiveKey& key, const ir::Action& action, const std::vector<uint32_t>& parameters);
  Result<void> sum_statistics(const CollectiveKey& key, const ir::Action& action);

  const Pipeline& pipeline_;
  const ir::Dependencies& dependencies_;
  const std::vector<Program*>& programs_;
  Transport& transport_;
  Router& router_;
  std::map<StageId, ShareExchange> shares_;  ///< of sharded stages
  std::map<std::pair<StageId, uint64_t>, std::vector<std::vector<uint32_t>>> buckets_;
};

}  // namespace rannc::runtime
