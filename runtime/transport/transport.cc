#include "runtime/transport/transport.h"

#include <fmt/format.h>

#include <algorithm>

namespace rannc::runtime {

std::string describe(const MessageKey& key) {
  return fmt::format("the {} of route {}, micro-batch {}",
                     key.direction == Direction::kActivation ? "activation" : "gradient", key.route, key.micro_batch);
}

size_t position_in(std::span<const DeviceId> members, DeviceId self) {
  const auto position = static_cast<size_t>(std::find(members.begin(), members.end(), self) - members.begin());
  RANNC_CHECK(position < members.size()) << "a device takes part in the collectives that it is a member of";
  return position;
}

}  // namespace rannc::runtime
