/// Merges the rebuild hulls of blocks into those of stages.
#pragma once

#include <vector>

#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// What a stage can keep, at which cost in repeated forward time. A stage keeps everything that crosses its blocks and
/// chooses a point of each block's hull, or repeats its whole forward pass. The hull of the sums is the sum of the
/// hulls (Minkowski): the points of the blocks are taken by descending time per byte.
///
/// Limits: hulls are merged by the times of the first kind of device at the largest size. A stage cannot repeat several
/// of its blocks as one.
class StageHulls {
 public:
  /// Keeps no reference to the problem. O(points log points).
  explicit StageHulls(const StageProblem& problem);

  bool empty() const { return forward_.empty(); }

  /// Points of the blocks [a, b), by ascending bytes and descending shares of the stage's forward time. The first one
  /// repeats everything. O(points of all blocks).
  std::vector<RebuildPoint> of(uint32_t a, uint32_t b) const;

 private:
  /// From one point of a block's hull to the next.
  struct Segment {
    uint32_t block = 0;
    double bytes = 0, ns = 0;
  };
  void add(uint32_t block, const std::vector<RebuildPoint>& points, double forward_ns);

  std::vector<double> forward_, bytes_, ns_;  ///< prefix sums over blocks: all forward time; the hulls' first points
  std::vector<Segment> segments_;             ///< by descending time per byte
};

}  // namespace rannc::partition
