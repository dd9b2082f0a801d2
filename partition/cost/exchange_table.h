/// What moving bytes between devices costs, as measured.
#pragma once

#include <cstdint>
#include <map>

#include "partition/cluster.h"

namespace rannc::partition {

/// Bytes to nanoseconds; at least one entry when it is asked.
using TimeByBytes = std::map<uint64_t, double>;
/// Devices that take part to the time of one exchange among them. A message takes two.
using ExchangeTable = std::map<uint32_t, TimeByBytes>;

/// Linear between measured sizes; beyond them along the nearest segment, never below 0.
double time_at(const TimeByBytes& times, double bytes);

/// Time of an exchange among `devices`, linear between measured numbers of devices; beyond the largest in proportion to
/// `devices - 1`, as rings and direct exchanges grow. Fewer than two devices exchange nothing.
double exchange_ns(const ExchangeTable& table, uint32_t devices, double bytes);

/// The line latency + bytes / bandwidth that fits with the least squared relative error, so that the smallest message
/// counts as much as the largest. Latency is not negative, bandwidth at most 10^15 bytes/s: within a process nothing
/// is copied, and time does not depend on bytes.
Link fit_link(const TimeByBytes& times);

/// One link that prices both messages and the all-reduces of replicas, which planners take as moving 2 (n - 1) / n of
/// the bytes: latency as fitted to `messages`, bandwidth the smaller of theirs and of what the all-reduces come to. An
/// all-reduce also adds, so in one process it is slower than messages, which are handed over. Either may be null, not
/// both.
Link fit_link(const ExchangeTable* messages, const ExchangeTable* all_reduces);

}  // namespace rannc::partition
