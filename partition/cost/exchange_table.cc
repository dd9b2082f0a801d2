#include "partition/cost/exchange_table.h"

#include <algorithm>
#include <iterator>

namespace rannc::partition {
namespace {

constexpr double kMostBytesPerSecond = 1e15;

// Evaluates the line through two points.
double between(double x0, double y0, double x1, double y1, double x) { return y0 + (y1 - y0) * (x - x0) / (x1 - x0); }

}  // namespace

double time_at(const TimeByBytes& times, double bytes) {
  RANNC_CHECK(!times.empty());
  if (bytes <= 0) return 0;
  if (times.size() == 1) return times.begin()->second;
  auto high = std::find_if(times.begin(), times.end(),
                           [&](const auto& entry) { return static_cast<double>(entry.first) >= bytes; });
  if (high == times.begin()) ++high;
  if (high == times.end()) --high;
  const auto low = std::prev(high);
  return std::max(0.0, between(static_cast<double>(low->first), low->second, static_cast<double>(high->first),
                               high->second, bytes));
}

double exchange_ns(const ExchangeTable& table, uint32_t devices, double bytes) {
  RANNC_CHECK(!table.empty());
  if (devices < 2) return 0;
  const auto high = table.lower_bound(devices);
  if (high == table.end()) {
    const auto& [most, times] = *table.rbegin();
    return time_at(times, bytes) * (devices - 1) / (most - 1);
  }
  if (high->first == devices || high == table.begin()) return time_at(high->second, bytes);
  const auto low = std::prev(high);
  return between(low->first, time_at(low->second, bytes), high->first, time_at(high->second, bytes), devices);
}

Link fit_link(const TimeByBytes& times) {
  RANNC_CHECK(!times.empty());
  // Weights 1 / time^2: minimises the sum of ((latency + slope * bytes) / time - 1)^2.
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const auto& [size, time] : times) {
    const double x = static_cast<double>(size), weight = 1 / std::max(1.0, time * time);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * time;
    wxy += weight * x * time;
  }
  const double spread = w * wxx - wx * wx;
  double slope = spread > 0 ? (w * wxy - wx * wy) / spread : 0;
  double latency = (wy - slope * wx) / w;
  if (latency < 0 && wxx > 0) {  // the best line through the origin
    latency = 0;
    slope = wxy / wxx;
  }
  const double least = 1e9 / kMostBytesPerSecond;
  if (slope < least) {
    slope = least;
    latency = std::max(0.0, (wy - slope * wx) / w);
  }
  return {1e9 / slope, latency};
}

Link fit_link(const ExchangeTable* messages, const ExchangeTable* all_reduces) {
  RANNC_CHECK(messages != nullptr || all_reduces != nullptr);
  Link link{kMostBytesPerSecond, 0};
  if (messages != nullptr) link = fit_link(messages->begin()->second);
  if (all_reduces == nullptr) return link;
  for (const auto& [devices, times] : *all_reduces) {
    const Link fitted = fit_link(times);
    const double moved = 2.0 * (devices - 1) / devices;
    link.bytes_per_second = std::min(link.bytes_per_second, moved * fitted.bytes_per_second);
    if (messages == nullptr) link.latency_ns = std::max(link.latency_ns, fitted.latency_ns);
  }
  return link;
}

}  // namespace rannc::partition
