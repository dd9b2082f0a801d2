/// Texts of files from strangers, for terminals.
#pragma once

#include <string>
#include <string_view>

namespace rannc {

/// Whether a text has no control characters, and none that break lines or reorder text: such a name could clear a
/// terminal or forge a line of output.
bool is_printable(std::string_view text);
/// The text with these characters written as `\x1b` or `\u202e`.
std::string printable(std::string_view text);
/// Likewise with its lines kept: those after the first are indented.
std::string printable_lines(std::string_view text);

}  // namespace rannc
