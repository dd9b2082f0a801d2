/// Compares standings of a simulation.
#include "partition/schedule/steady_state.h"

#include <limits>

namespace rannc::partition {
namespace {

bool shifted(double earlier, double later, double by) { return later - earlier == by; }

bool same_flags(const DeviceState& a, const DeviceState& b) {
  return a.waiting == b.waiting && a.parked == b.parked && a.unsent == b.unsent && a.held == b.held &&
         a.reduced == b.reduced && (a.wake == kUnknown) == (b.wake == kUnknown);
}

bool device_repeats(const Standing& earlier, const Standing& later, size_t d, double time) {
  const DeviceState &a = earlier.devices[d], &b = later.devices[d];
  if (!same_flags(a, b)) return false;
  // A device that has not advanced must have no pending event with a time of its own.
  if (a.next == b.next && (a.unsent || a.wake != kUnknown)) return false;
  const double by = a.next == b.next ? 0 : time;
  return shifted(a.clock, b.clock, by) && (a.wake == kUnknown || shifted(a.wake, b.wake, by)) &&
         shifted(earlier.timelines[d].last, later.timelines[d].last, by);
}

bool unread_repeats(const std::vector<UnreadMessage>& a, const std::vector<UnreadMessage>& b, const Period& period) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i].pair == b[i].pair && a[i].activation == b[i].activation;
    if (!same || !shifted(a[i].arrival, b[i].arrival, period.time)) return false;
    if (int64_t{b[i].micro_batch} - a[i].micro_batch != period.micro_batches) return false;
  }
  return true;
}

bool is_shift(const ir::Action& a, const ir::Action& b, int64_t micro_batches) {
  return a.kind == b.kind && ir::has_micro_batch(a.kind) && a.route == b.route && a.stage == b.stage &&
         a.peer == b.peer && int64_t{b.micro_batch} - a.micro_batch == micro_batches;
}

}  // namespace

bool repeats(const Standing& earlier, const Standing& later, Period& period) {
  period = {later.now - earlier.now, int64_t{later.micro_batch} - earlier.micro_batch};
  for (size_t d = 0; d < later.devices.size(); ++d) {
    if (!device_repeats(earlier, later, d, period.time)) return false;
  }
  for (size_t d = 0; d < later.unread.size(); ++d) {
    if (!unread_repeats(earlier.unread[d], later.unread[d], period)) return false;
  }
  for (size_t p = 0; p < later.ports.size(); ++p) {
    const Port before = p < earlier.ports.size() ? earlier.ports[p] : Port();
    if (later.ports[p].uses != before.uses && !shifted(before.free, later.ports[p].free, period.time)) return false;
  }
  return true;
}

uint64_t periods_ahead(const ir::Schedule& schedule, const Standing& earlier, const Standing& later,
                       const Period& period) {
  uint64_t periods = std::numeric_limits<uint64_t>::max();
  for (size_t d = 0; d < later.devices.size(); ++d) {
    const size_t from = earlier.devices[d].next, to = later.devices[d].next, length = to - from;
    if (length == 0) continue;
    const auto& row = schedule.rows[d];
    // A computation in progress still has to send its results.
    if (later.devices[d].unsent && !is_shift(row[from - 1], row[to - 1], period.micro_batches)) return 0;
    size_t alike = 0;
    while (to + alike < row.size() && is_shift(row[from + alike], row[to + alike], period.micro_batches)) ++alike;
    // The action after the last period counts, because a device may already be waiting for it.
    periods = std::min<uint64_t>(periods, alike == 0 ? 0 : (alike - 1) / length);
  }
  return periods == std::numeric_limits<uint64_t>::max() ? 0 : periods;
}

uint64_t move_on(const Standing& earlier, const Standing& now, const Period& period, uint64_t times,
                 std::vector<DeviceState>& states, std::vector<DeviceTimeline>& timelines) {
  const double count = static_cast<double>(times), later = count * period.time;
  uint64_t skipped = 0;
  for (size_t d = 0; d < states.size(); ++d) {
    const uint32_t length = now.devices[d].next - earlier.devices[d].next;
    if (length == 0) continue;
    skipped += times * length;
    states[d].next += static_cast<uint32_t>(times * length);
    states[d].clock += later;
    if (states[d].wake != kUnknown) states[d].wake += later;
    timelines[d].busy += count * (now.timelines[d].busy - earlier.timelines[d].busy);
    timelines[d].last += later;
  }
  return skipped;
}

const Standing* Standings::keep(Period& period) {
  const Standing& now = ring_[next_ % kKept];
  first_ = std::max(first_, next_ < kKept ? size_t{0} : next_ - kKept + 1);
  const Standing* found = nullptr;
  for (size_t i = next_; found == nullptr && i-- > first_;) {
    if (repeats(ring_[i % kKept], now, period)) found = &ring_[i % kKept];
  }
  ++next_;
  return found;
}

}  // namespace rannc::partition
