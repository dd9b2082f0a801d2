/// Judges rows by the memory verifier and the simulator.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/schedule/found/row_problem.h"

namespace rannc::partition::found {

struct Verdict {
  double makespan = kNever;     ///< infinity: rows that do not fit or wait for each other
  bool fits = false;            ///< each device is within its memory
  std::vector<int64_t> excess;  ///< by device: bytes above its limit, 0 or more
};

class RowJudge {
 public:
  /// Keeps references. `spans` and `memory` of the options are ignored.
  RowJudge(const ir::PipelineShape& shape, const ScheduleCosts& costs, SimulationOptions options);

  /// Lowers compute-only rows, verifies their memory and simulates them.
  Verdict judge(const ir::Schedule& rows);
  uint64_t actions() const { return actions_; }  ///< in all, in units of an action of the longest-path model

 private:
  const ir::PipelineShape& shape_;
  const ScheduleCosts& costs_;
  SimulationOptions options_;
  uint64_t actions_ = 0;
};

}  // namespace rannc::partition::found
