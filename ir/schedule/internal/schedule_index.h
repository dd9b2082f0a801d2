/// Index of the actions of a schedule by content.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// Positions of each action. Does not refer to the schedule after construction.
class ScheduleIndex {
 public:
  explicit ScheduleIndex(const Schedule& schedule) : rows_(schedule.rows.size()) {
    for (size_t d = 0; d < rows_.size(); ++d) {
      const auto& row = schedule.rows[d];
      for (uint32_t i = 0; i < row.size(); ++i) rows_[d].push_back({key(row[i]), i});
      std::sort(rows_[d].begin(), rows_[d].end());
    }
  }

  /// Positions of equal actions in a device's row, ascending.
  std::vector<uint32_t> all(DeviceId device, const Action& action) const {
    const auto [first, last] = range(device, action);
    std::vector<uint32_t> positions;
    for (auto it = first; it != last; ++it) positions.push_back(it->second);
    return positions;
  }
  size_t count(DeviceId device, const Action& action) const {
    const auto [first, last] = range(device, action);
    return static_cast<size_t>(last - first);
  }
  static constexpr uint32_t kAbsent = 0xffffffff;
  /// First and last position; kAbsent if there is none.
  uint32_t first(DeviceId device, const Action& action) const {
    const auto [first, last] = range(device, action);
    return first == last ? kAbsent : first->second;
  }
  uint32_t last(DeviceId device, const Action& action) const {
    const auto [first, last] = range(device, action);
    return first == last ? kAbsent : (last - 1)->second;
  }

 private:
  using Key = std::tuple<uint64_t, uint64_t>;
  using Entry = std::pair<Key, uint32_t>;

  static Key key(const Action& a) {
    const uint64_t head = (static_cast<uint64_t>(a.kind) << 56) | (uint64_t{a.route} << 32) | a.stage.index();
    return {head, (uint64_t{a.micro_batch} << 32) | a.peer.index()};
  }
  std::pair<std::vector<Entry>::const_iterator, std::vector<Entry>::const_iterator> range(DeviceId device,
                                                                                          const Action& action) const {
    const auto& row = rows_[device.index()];
    const Key wanted = key(action);
    const auto first = std::lower_bound(row.begin(), row.end(), Entry{wanted, 0});
    auto last = first;
    while (last != row.end() && last->first == wanted) ++last;
    return {first, last};
  }

  std::vector<std::vector<Entry>> rows_;
};

}  // namespace rannc::ir
