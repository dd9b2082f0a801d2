/// Finds the type of numbers in files without a header.
#pragma once

#include <cstdint>
#include <string_view>

namespace rannc::runtime {

/// Returns the types of which these numbers seem to be if tokens of `narrow` bytes would be parts of them:
/// `int32 or uint32`, `int64`, `float32`, `float64`; empty if they do not. Token ids are small, so that the upper half
/// of a wide one is 0, as good as 0, or a sign, unlike the tokens of a text.
std::string_view wider_type(std::string_view bytes, uint64_t narrow);

}  // namespace rannc::runtime
