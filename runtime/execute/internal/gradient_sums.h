/// Sums of gradients and statistics over devices.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "ir/schedule/dependencies.h"
#include "runtime/execute/pipeline.h"
#include "runtime/execute/program.h"
#include "runtime/internal/router.h"
#include "runtime/internal/share_exchange.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// The collectives of one device's row. ARs, SCs and RSs begin in the order of the row, at the latest when it reaches
/// them; an AR or SC begins earlier if the gradients of its bucket, and of all before it, are final. The update of a
/// stage awaits them. All members have one order (rules S6 and S9), whatever finished first.
class GradientSums {
 public:
  /// An AR, SC or RS, from its beginning to the end of its last sum.
  struct Span {
    int64_t start_ns = 0, end_ns = 0;
    int64_t waited_ns = 0;  ///< part of that time: the device waited
    EventRef start;         ///< of an asynchronous device
    uint32_t sums = 0;      ///< that have not ended
  };
  /// Called on the device's thread.
  struct Watch {
    std::function<EventRef()> stamp;              ///< a time of the compute stream
    std::function<void(size_t position)> waits;   ///< the device begins to wait for the action at this position
    std::function<void(size_t position)> failed;  ///< the action at this position did not begin
    std::function<void(const ir::Action& action, Span span)> ended;
  };

  /// `programs`: by stage. `row`: of the device. All reference arguments must outlive it.
  GradientSums(const Pipeline& pipeline, const ir::Dependencies& dependencies, const std::vector<Program*>& programs,
               Transport& transport, const std::vector<ir::Action>& row, Watch watch);

  /// `overlaps`: sums run while the device computes; else it waits for each where the row has it. `updates`: an SC sums
  /// each gradient on the owner of its share; else on all replicas, as an AR does, and the next step can add to it.
  void begin_step(uint64_t step, bool overlaps, bool updates);
  /// Forgets sums in progress.
  void end_step();

  /// The first `count` buckets of a stage are final. Begins what can begin. Sums overlap in this step.
  Result<void> pass_marks(StageId stage, size_t count);
  /// Begins the collective at a position of the row, if it has not begun: the sum of a bucket of gradients, with the
  /// last of them that of statistics. Buckets skip shared parameters: their group has a sum of its own, over all
  /// replicas of all its stages, after this device's stages have been added.
  Result<void> reach(size_t position);
  /// Waits for the sums of a stage and hands them to its program.
  Result<void> await(StageId stage);
  Result<void> await_all();

  /// AG: copies each replica's share of the stage's parameters to the others.
  Result<void> all_gather(StageId stage);
  /// Selects the one holder that keeps a sum for the next step: the first replica and, for a shared parameter, its
  /// first stage.
  Carried carried(StageId stage) const;
  /// Number of buckets of a stage.
  size_t buckets(StageId stage) const { return pipeline_.buckets[stage.index()].size(); }

 private:
  /// A sum in progress: of a bucket, of a round of shares, of a group (no parameters), or of statistics.
  struct Begun {
    size_t position = 0;  ///< in the row
    StageId stage;
    ir::ParameterBucket parameters;
    bool of_shares = false, of_statistics = false;
    std::unique_ptr<PendingSum> sum;
  };

  DeviceId device() const { return transport_.device(); }
  Program& program(StageId stage) const { return *programs_[stage.index()]; }
  /// Returns the index of a group's parameter in one of its stages.
  uint32_t slot(uint32_t group, StageId stage) const;
  /// Begins what is next in the row and final.
  Result<void> begin_final();
  void open(size_t position);
  Result<void> begin(size_t position);
  Result<void> begin_bucket(size_t position, size_t bucket);
  Result<void> begin_shares(size_t position, size_t bucket);
  Result<void> begin_statistics(size_t position);
  Result<void> begin_group(size_t position);
  /// The values of a sum over one device are already there.
  Result<void> begin_sum(Begun sum, const CollectiveKey& key, Values values);
  void finish(const Begun& sum, Values sums);
  void close(size_t position);
  bool concerns(const Begun& sum, StageId stage) const;
  /// Waits for a sum, which is no longer in `begun_`.
  Result<void> await(Begun sum);

  const Pipeline& pipeline_;
  const ir::Dependencies& dependencies_;
  const std::vector<Program*>& programs_;
  Transport& transport_;
  const std::vector<ir::Action>& row_;
  const Watch watch_;
  std::map<StageId, ShareExchange> shares_;  ///< of sharded stages
  std::vector<size_t> order_;                ///< positions of ARs, SCs and RSs in the row
  uint64_t step_ = 0;
  bool overlaps_ = true, updates_ = true;
  size_t next_ = 0;                  ///< in `order_`: the first that has not begun
  std::map<StageId, size_t> final_;  ///< buckets that are final in this step
  std::deque<Begun> begun_;          ///< in order
  std::map<size_t, Span> spans_;     ///< by position
};

}  // namespace rannc::runtime
