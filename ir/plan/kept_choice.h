/// Trade-offs between the memory that a stage keeps and the time of its recompute.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/ids.h"

namespace rannc::ir {

/// What keeping and recomputing cost, for one number of samples. All numbers are >= 0.
struct RecomputeCosts {
  static constexpr int64_t kNever = INT64_MAX;  ///< a task that must not run again

  /// By value of the joint graph: bytes of its memory. 0 for memory that is held anyway, such as the samples of a
  /// mini-batch. A view is counted by the value whose memory it shares.
  std::vector<int64_t> bytes;
  /// By task: time of its forward pass, or `kNever`. Only tasks of F count. Views take no time.
  std::vector<int64_t> forward_ns;
  /// By value: time to generate a random input again. Other values are ignored.
  std::vector<int64_t> random_ns;
};

/// What F keeps if an R follows, and what that costs.
struct KeptChoice {
  std::vector<ValueId> kept;  ///< for `StageFunctions::kept`, ascending
  int64_t kept_bytes = 0;     ///< of distinct memory
  int64_t recompute_ns = 0;   ///< of the tasks that R repeats and the random inputs that it generates again
  bool operator==(const KeptChoice&) const = default;
};

}  // namespace rannc::ir
