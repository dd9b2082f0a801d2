/// Digests that find damage. They are no protection against forgery.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rannc::runtime {

/// 128 bits of xxHash (XXH3) as 32 hexadecimal digits.
std::string digest_of(std::span<const std::byte> bytes);
std::string digest_of(std::string_view text);

}  // namespace rannc::runtime
