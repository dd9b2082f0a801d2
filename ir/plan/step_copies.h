/// Temporary copies of an optimizer step.
#pragma once

#include <cstdint>

#include "ir/base/device_type.h"

namespace rannc::ir {

/// Parameters narrower than the sums of their gradients, and their states, are updated in wide copies, in slices of at
/// most so many bytes together. A processor keeps a slice in its cache. A GPU needs more work per call.
constexpr int64_t step_copy_bytes(DeviceType device) {
  return device == DeviceType::kCpu ? int64_t{1} << 20 : int64_t{64} << 20;
}

}  // namespace rannc::ir
