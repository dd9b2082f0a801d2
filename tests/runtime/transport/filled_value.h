/// Values for tests and benchmarks of transports.
#pragma once

#include <ATen/ATen.h>

#include "runtime/engine/tensor.h"

namespace rannc::testing {

/// A float32 vector of equal elements.
inline runtime::Value filled_value(int64_t elements, float element) {
  return runtime::to_value(at::full({elements}, element, at::kFloat));
}

}  // namespace rannc::testing
