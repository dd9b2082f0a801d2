/// Describes the cut for which rows are searched, by lane and slot.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/schedule.h"
#include "partition/schedule/simulate.h"

namespace rannc::partition::found {

/// F, B, I, W, R as the first kinds of `ir::ActionKind`.
inline constexpr size_t kKinds = 5;
template <class T>
using ByKind = std::array<T, kKinds>;
constexpr size_t index_of(ir::ActionKind kind) { return static_cast<size_t>(kind); }

inline constexpr double kNever = std::numeric_limits<double>::infinity();
inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 4;

/// Whether backward passes may be divided into I and a later W.
enum class BackwardParts : uint8_t { kWhole, kSplit };

/// A pass of another slot whose result a slot reads: F for F, I or B for I and B.
struct Feed {
  uint32_t slot = 0;
  uint32_t id = 0;            ///< among all feeds
  uint32_t route = 0;         ///< the first one
  std::vector<double> delay;  ///< by class: from the end of the pass to the arrival of the last message
  std::vector<double> least;  ///< by class: to the arrival of the first one
  std::vector<double> wire;   ///< by class: time of the messages on the wire, part of `delay`
  std::vector<Hold> holds;    ///< ports that they occupy; empty: none
};

/// Where a slot's results go, in the order of sending: a feed of another slot.
struct Reader {
  uint32_t slot = 0;
  uint32_t feed = 0;  ///< index into its `inputs` or `gradients`
};

/// Changes of a lane's memory by the passes of a slot, for one class of micro-batches.
struct SlotBytes {
  int64_t saved = 0, kept = 0, pending = 0;  ///< by F without and with a later R; by I
  ByKind<int64_t> rise = {};                 ///< most bytes during a pass, above those before it
  int64_t passing = 0;                       ///< the same of an F with a later R
};

/// A stage on a lane.
struct Slot {
  StageId stage;
  uint32_t lane = 0;
  std::vector<ByKind<double>> time;     ///< by class
  std::vector<Feed> inputs, gradients;  ///< of F; of I and B
  std::vector<Reader> readers;          ///< slots with this one among their `inputs`
  std::vector<Reader> sources;          ///< slots with this one among their `gradients`
  double begin = 0;                     ///< before the first F
  double finish = 0;                    ///< after the last row action of the lane: gradients and step
  double tail = 0;                      ///< from the end of the last B or W to the end of the step
  std::vector<SlotBytes> bytes;         ///< by class
  int64_t gradient_bytes = 0;           ///< from the first B or W on
  bool recompute = false;
};

/// Devices with the same stages. They have the same row.
struct Lane {
  std::vector<DeviceId> devices;
  std::vector<uint32_t> slots;  ///< in the order of stages
  int64_t fixed_bytes = 0;
  int64_t limit = kNoLimit;
};

struct RowProblem {
  const ir::PipelineShape* shape = nullptr;
  BackwardParts parts = BackwardParts::kSplit;
  ir::RecomputedMicroBatches recomputed = ir::RecomputedMicroBatches::kUnlessBackwardFollows;
  uint32_t micro_batches = 0;
  std::vector<uint32_t> class_of;  ///< by micro-batch: of equal samples and times
  uint32_t classes = 0;
  std::vector<Slot> slots;  ///< in the order of stages
  std::vector<Lane> lanes;
  uint32_t feeds = 0;      ///< number of all feeds
  uint32_t resources = 0;  ///< one more than the largest in `Feed::holds`; 0: messages wait for no ports

  double time(uint32_t slot, ir::ActionKind kind, uint32_t micro_batch) const {
    return slots[slot].time[class_of[micro_batch]][index_of(kind)];
  }
  /// Actions of whole rows without R.
  uint64_t actions() const { return uint64_t{slots.size()} * micro_batches * (parts == BackwardParts::kSplit ? 3 : 2); }
};

/// When ports become free.
class Ports {
 public:
  explicit Ports(const RowProblem& problem) : free_(problem.resources, 0) {}

  void clear() { std::fill(free_.begin(), free_.end(), 0.0); }
  /// Sends the messages of a feed at `time`, or once its ports are free. Returns their arrival.
  double send(const Feed& feed, uint32_t size_class, double time) {
    if (free_.empty()) return time + feed.delay[size_class];
    double start = time;
    for (const Hold& hold : feed.holds) start = std::max(start, free_[hold.resource]);
    for (const Hold& hold : feed.holds) free_[hold.resource] = start + feed.wire[size_class] * hold.share;
    return start + feed.delay[size_class];
  }

 private:
  std::vector<double> free_;
};

/// Describes a training shape. Keeps a pointer to it. Of the options, `contention` counts.
RowProblem make_row_problem(const ir::PipelineShape& shape, const ScheduleCosts& costs, BackwardParts parts,
                            ir::RecomputedMicroBatches recomputed, const SimulationOptions& options = {});

}  // namespace rannc::partition::found
