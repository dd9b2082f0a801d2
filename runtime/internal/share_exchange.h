/// Moves a stage's gradients to the shares of its replicas, and updated parameters back to all of them.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ir/plan/optimizer_shares.h"
#include "runtime/execute/program.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Elements of each parameter of a program.
std::vector<int64_t> parameter_elements(const Program& program);

/// One replica's part of the exchange. Works in rounds, each of which moves a part of all shares, so that replicas send
/// and receive equal amounts at a time and the memory of messages stays small.
class ShareExchange {
 public:
  /// `members`: the devices of the stage, by replica; `shares`: theirs (`Pipeline::shares`). All arguments must outlive
  /// it.
  ShareExchange(StageId stage, const std::vector<DeviceId>& members,
                const std::vector<std::vector<ir::ParameterSlice>>& shares, Program& program, Transport& transport);

  /// Sums the gradients over the replicas, each element on the owner of its share alone. Afterwards the program's
  /// gradients contain the sums in this replica's share, and this replica's own terms elsewhere. Parameters in `summed`
  /// are left alone: their gradients are sums on all replicas.
  Result<void> reduce_scatter(uint64_t step, const std::set<uint32_t>& summed);
  /// Copies each replica's share of the parameters to the others.
  Result<void> all_gather(uint64_t step);

 private:
  /// Calls `visit(round)` for each round.
  template <class Visit>
  Result<void> each_round(Visit&& visit) const;
  /// The elements that a round moves, by replica and slice. Leaves out parameters in `without`.
  std::vector<Values> parts(const Values& whole, size_t round, const std::set<uint32_t>& without) const;

  StageId stage_;
  const std::vector<DeviceId>& members_;
  Program& program_;
  Transport& transport_;
  size_t replica_;
  std::vector<std::vector<std::vector<ir::ParameterSlice>>> rounds_;  ///< by replica, then by round
};

}  // namespace rannc::runtime
