/// Prices data movement between devices from measurements.
#pragma once

#include <cstdint>
#include <map>

#include "partition/cluster.h"

namespace rannc::partition {

/// Time in ns by number of bytes; must not be empty when evaluated.
using TimeByBytes = std::map<uint64_t, double>;
/// Times of one exchange by number of participating devices; a message has two.
using ExchangeTable = std::map<uint32_t, TimeByBytes>;

/// Interpolates linearly between measured sizes and extrapolates along the nearest segment, never below 0.
double time_at(const TimeByBytes& times, double bytes);

/// Returns the time of an exchange among `devices`, linear between measured numbers of devices. Beyond the largest it
/// grows in proportion to `devices - 1`, as rings and direct exchanges do. Fewer than two devices take no time.
double exchange_ns(const ExchangeTable& table, uint32_t devices, double bytes);

/// Fits the line latency + bytes / bandwidth with the least squared relative error, so that the smallest message counts
/// as much as the largest. Latency is not negative. Bandwidth is at most 10^15 bytes/s: within a process nothing is
/// copied, and time does not depend on bytes.
Link fit_link(const TimeByBytes& times);

/// Fits one link that prices both messages and the replicas' all-reduces, which planners assume to move 2 (n - 1) / n
/// of the bytes. Latency is fitted to `messages`; bandwidth is the smaller of the messages' and the all-reduces'. An
/// all-reduce also adds, so within one process it is slower than messages, which are not copied. One of the two may be
/// null.
Link fit_link(const ExchangeTable* messages, const ExchangeTable* all_reduces);

}  // namespace rannc::partition
