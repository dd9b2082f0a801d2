#include "passes/planning/internal/least_cut.h"

#include <algorithm>

#include "ir/base/cut_network.h"

namespace rannc::passes {

uint32_t LeastCut::add_item() {
  costs_.emplace_back();
  return static_cast<uint32_t>(costs_.size() - 1);
}

void LeastCut::pay(uint32_t item, int64_t on_first, int64_t on_second) {
  costs_[item].first += on_first;
  costs_[item].second += on_second;
}

void LeastCut::keep_together(std::vector<uint32_t> items, int64_t cost) { groups_.push_back({std::move(items), cost}); }

std::vector<bool> LeastCut::second_side() const {
  const auto count = static_cast<uint32_t>(costs_.size());
  ir::CutNetwork network(count);
  const uint32_t source = network.add_node(), sink = network.add_node();
  for (uint32_t item = 0; item < count; ++item) {
    const auto [first, second] = costs_[item];
    const int64_t both = std::min(first, second);
    if (second > both) network.connect(source, item, second - both);
    if (first > both) network.connect(item, sink, first - both);
  }
  for (const Group& group : groups_) {
    const uint32_t any_first = network.add_node(), all_first = network.add_node();
    network.connect(any_first, all_first, group.cost);
    for (const uint32_t item : group.items) {
      network.connect(item, any_first, kNever);
      network.connect(all_first, item, kNever);
    }
  }
  std::vector<bool> second = network.smallest_side(source, sink, ir::CutNetwork::Tie::kFewestBySink);
  second.resize(count);
  return second;
}

}  // namespace rannc::passes
