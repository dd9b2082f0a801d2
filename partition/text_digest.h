/// Digest of a text that a plan records.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <string>
#include <string_view>

namespace rannc::partition {

/// Returns 16 hex digits. Equal texts have equal digests on all machines.
inline std::string text_digest(std::string_view text) {
  return fmt::format("{:016x}", XXH64(text.data(), text.size(), 0));
}

}  // namespace rannc::partition
