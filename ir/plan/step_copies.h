/// Temporary copies of an optimizer step.
#pragma once

#include <cstdint>

namespace rannc::ir {

/// Parameters narrower than the sums of their gradients, and their states, are updated in wide copies, in slices of at
/// most so many bytes together.
inline constexpr int64_t kStepCopyBytes = int64_t{1} << 20;

}  // namespace rannc::ir
