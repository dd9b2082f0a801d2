/// Buckets of gradients.
#pragma once

#include <cstdint>

namespace rannc::runtime {

/// Replicas sum gradients of up to this size in one call by default.
constexpr uint64_t kBucketBytes = 4 << 20;

}  // namespace rannc::runtime
