/// Compares the bytes that a step sends over each link with the plan.
#pragma once

#include <map>
#include <string>

#include "ir/plan/link_bytes.h"
#include "runtime/transport/sent_bytes.h"

namespace rannc::tools {

/// By link.
using LinkTraffic = std::map<ir::Link, runtime::SentBytes>;

/// Returns what was sent since `before`.
LinkTraffic since(const LinkTraffic& before, LinkTraffic now);

/// Returns the report's table: per link the planned and the measured bytes of a step's messages, and the bytes of sums
/// over devices. Without measurements, only the planned ones.
std::string link_table(const ir::Plan& plan, const LinkTraffic& measured);

/// Returns the lines that a worker passes to worker 0.
std::string print_traffic(const LinkTraffic& traffic);
Result<LinkTraffic> parse_traffic(const std::string& text, const std::string& path);

}  // namespace rannc::tools
