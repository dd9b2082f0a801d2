#include "runtime/transport/transport.h"

#include <fmt/format.h>

#include <algorithm>

namespace rannc::runtime {

std::string describe(const MessageKey& key) {
  return fmt::format("the {} of route {}, micro-batch {}",
                     key.direction == Direction::kActivation ? "activation" : "gradient", key.route, key.micro_batch);
}

std::string describe(const CollectiveKey& key) {
  constexpr const char* kNames[] = {"all-reduce",        "reduction of shared parameters",
                                    "sum within passes", "collective",
                                    "reduce-scatter",    "all-gather"};
  const auto kind = static_cast<size_t>(key.kind);
  const char* const name = kind < std::size(kNames) ? kNames[kind] : "unknown collective";
  return fmt::format("{} {}, part {} of step {}", name, key.index, key.part, key.step);
}

size_t position_in(std::span<const DeviceId> members, DeviceId self) {
  const auto position = static_cast<size_t>(std::find(members.begin(), members.end(), self) - members.begin());
  RANNC_CHECK(position < members.size()) << "a device takes part in the collectives that it is a member of";
  return position;
}

}  // namespace rannc::runtime
