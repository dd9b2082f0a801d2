/// Sizes of types whose dimensions are all known.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/type.h"

namespace rannc::ir {

/// Returns the sizes of a shape; nothing if it is unknown or a dimension is symbolic.
inline std::optional<std::vector<int64_t>> static_sizes(const ValueType& type) {
  if (!type.shape) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Dim& dim : *type.shape) {
    if (!dim.is_constant()) return std::nullopt;
    sizes.push_back(dim.constant());
  }
  return sizes;
}

}  // namespace rannc::ir
