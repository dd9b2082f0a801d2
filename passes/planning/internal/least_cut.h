/// Minimises the cost of binary choices with penalties for disagreement.
#pragma once

#include <cstdint>
#include <vector>

namespace rannc::passes {

/// Each of `size` items is on one of two sides. An item pays for its side, and a group pays once unless all its items
/// are on one side. Costs are integers, so that sums are exact.
class LeastCut {
 public:
  static constexpr int64_t kNever = int64_t{1} << 50;  ///< more than all other costs together

  explicit LeastCut(uint32_t size) : costs_(size) {}
  uint32_t add_item();
  void pay(uint32_t item, int64_t on_first, int64_t on_second);
  /// Adds `cost` unless all of these items are on one side; an item may occur twice.
  void keep_together(std::vector<uint32_t> items, int64_t cost);
  /// Returns for each item whether it is on the second side, such that the sum of all costs is minimal; among equal
  /// sums, the one with the fewest items there. Uses a minimum cut: Lawler's gadget for groups, flow by Boykov and
  /// Kolmogorov (2004).
  std::vector<bool> second_side() const;

 private:
  struct Costs {
    int64_t first = 0, second = 0;
  };
  struct Group {
    std::vector<uint32_t> items;
    int64_t cost = 0;
  };
  std::vector<Costs> costs_;
  std::vector<Group> groups_;
};

}  // namespace rannc::passes
