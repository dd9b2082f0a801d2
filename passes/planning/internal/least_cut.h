/// Two-way choices that pay for disagreeing.
#pragma once

#include <cstdint>
#include <vector>

namespace rannc::passes {

/// Each of `size` items is on one of two sides. An item pays for the side it is on, and a group once for not being on
/// one side. Costs are integers, so that nothing is lost.
class LeastCut {
 public:
  static constexpr int64_t kNever = int64_t{1} << 50;  ///< more than all other costs together

  explicit LeastCut(uint32_t size) : costs_(size) {}
  uint32_t add_item();
  void pay(uint32_t item, int64_t on_first, int64_t on_second);
  /// `cost` unless all of these are on one side; an item may occur twice.
  void keep_together(std::vector<uint32_t> items, int64_t cost);
  /// By item whether it is on the second side, such that the sum of all costs is least; of equal sums the one with
  /// fewest items there. By a minimum cut: Lawler's gadget for groups, flow by Boykov and Kolmogorov (2004).
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
