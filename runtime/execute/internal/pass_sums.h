/// Sums over the replicas of a stage in the middle of its passes.
#pragma once

#include <utility>
#include <vector>

#include "runtime/execute/program.h"
#include "runtime/internal/router.h"

namespace rannc::runtime {

/// Numbers the sums of a step in the order of the passes that request them, which is the same on all replicas of a
/// stage (rule S3). Rule S6 ensures that the replicas can wait for each other there.
class PassSums final : public ReplicaSums {
 public:
  /// All reference arguments must outlive it. Waiting time is added to `router`.
  PassSums(StageId stage, const std::vector<DeviceId>& members, Transport& transport, Router& router)
      : key_{0, CollectiveKey::Kind::kWithinPass, stage.index()},
        members_(members),
        transport_(transport),
        router_(router),
        replica_(static_cast<uint32_t>(position_in(members, transport.device()))) {}

  void begin_step(uint64_t step) {
    key_.step = step;
    key_.part = 0;
  }

  uint32_t replicas() const override { return static_cast<uint32_t>(members_.size()); }
  uint32_t replica() const override { return replica_; }
  Result<Value> sum(Value own) override {
    Values terms;
    terms.push_back(std::move(own));
    const int64_t start = now_ns();
    Result<Values> sums = transport_.all_reduce(key_, members_, std::move(terms));
    router_.add_wait(now_ns() - start);
    ++key_.part;
    if (!sums.ok()) return sums.diagnostic();
    return sums->front();
  }

 private:
  CollectiveKey key_;
  const std::vector<DeviceId>& members_;
  Transport& transport_;
  Router& router_;
  uint32_t replica_;
};

}  // namespace rannc::runtime
