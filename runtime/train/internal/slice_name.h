/// Keys of slices in checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rannc::runtime {

/// Elements [first, last) of the tensor `key`, in memory order.
struct SliceName {
  std::string key;
  int64_t first = 0, last = 0;
};

bool is_slice_key(std::string_view key);
/// Nothing if it is not the key of a slice with elements.
std::optional<SliceName> parse_slice(std::string_view key);

}  // namespace rannc::runtime
