/// Secrets that the workers of a run share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

/// Returns `bytes` random bytes of the operating system as hexadecimal digits.
Result<std::string> random_hex(size_t bytes);

/// Returns whether both texts are equal, in a time that does not depend on where they differ.
bool equal_secrets(std::string_view first, std::string_view second);

/// Returns the HMAC-SHA-256 of `text` under `secret`: 32 bytes. A secret may have any length.
std::string proof_of(std::string_view secret, std::string_view text);

}  // namespace rannc::runtime
