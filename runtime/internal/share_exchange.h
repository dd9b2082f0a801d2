/// Moves a stage's gradients to the shares of its replicas, and updated parameters back to all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/plan/optimizer_shares.h"
#include "runtime/execute/program.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// Elements of each parameter of a program.
std::vector<int64_t> parameter_elements(const Program& program);

/// One replica's part of the exchange. Each bucket is moved in rounds, each of which moves a part of all shares, so
/// that replicas send and receive equal amounts at a time and the memory of messages stays small.
class ShareExchange {
 public:
  /// `members`: the devices of the stage, by replica; `shares`: theirs (`Pipeline::shares`). All arguments must outlive
  /// it.
  ShareExchange(StageId stage, const std::vector<DeviceId>& members, const ir::OptimizerShares& shares,
                Program& program, Transport& transport);

  /// Begins to sum the gradients of a bucket over the replicas, each element on the owner of its share alone, in
  /// rounds. `parameters`: of the bucket. Afterwards the program's gradients contain the sums in this replica's share,
  /// and its own terms elsewhere.
  Result<std::vector<std::unique_ptr<PendingSum>>> begin_reduce_scatter(uint64_t step, size_t bucket,
                                                                        const ir::ParameterBucket& parameters);
  /// Copies each replica's share of the parameters to the others.
  Result<void> all_gather(uint64_t step);

 private:
  /// The slices that a round moves, by replica.
  using Round = std::vector<std::vector<ir::ParameterSlice>>;

  static std::vector<Values> parts(const Values& whole, const Round& round);

  StageId stage_;
  const std::vector<DeviceId>& members_;
  Program& program_;
  Transport& transport_;
  std::vector<std::vector<Round>> rounds_;  ///< by bucket
};

}  // namespace rannc::runtime
