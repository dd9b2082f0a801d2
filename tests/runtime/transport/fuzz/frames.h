/// Byte streams as text, so that seeds can be read.
#pragma once

#include <string>
#include <string_view>

namespace rannc::fuzz {

/// `01` is a byte, `00x7` seven of them, `"text"` those of a text; `#` begins a comment. Anything else is skipped, and
/// bytes beyond 2 MiB are dropped.
std::string bytes_of(std::string_view text);
/// Text that `bytes_of` reads.
std::string text_of(std::string_view bytes);

}  // namespace rannc::fuzz
