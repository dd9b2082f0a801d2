/// Writer of text IR tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/graph/attributes.h"
#include "ir/graph/graph.h"
#include "ir/graph/type.h"

namespace rannc::ir {

/// `"text"` with all characters outside printable ASCII escaped.
std::string quote(std::string_view text);
/// Whether a character may occur in a word: letters, digits and `_ . : $ -`.
bool is_word_char(char c);
/// Appends the word, quoted if it contains other characters.
void append_word(std::string& to, std::string_view word);
/// The longest prefix of `text` that may follow a sigil without quotes.
std::string_view bare_name_prefix(std::string_view text);
/// Appends `sigil` and the name, quoted if necessary.
void append_name(std::string& to, char sigil, std::string_view name);
/// Exact hexadecimal form of a number: `0x1.8p+1`.
std::string hexadecimal(double value);
/// Appends `[0x1p+0,0x1.8p+1]`; `[0x]` if empty.
void append_numbers(std::string& to, const std::vector<double>& numbers);
/// Appends `f32[batch,12] samples 0 contents [1]`.
void append_type(std::string& to, const ValueType& type);
/// Appends ` {a = 1}`, or nothing if there are no attributes. Adds `a = 0.1` to `comment` for each number. Bodies are
/// `@b<number>`, numbered from `first_body` on.
void append_attributes(std::string& to, const Attributes& attributes, std::string& comment, uint32_t first_body = 0);
/// Appends ` = hex "…"` or ` = file "…" offset N bytes N`. Adds the numbers in decimal to `comment` if they are few.
void append_data(std::string& to, const Graph::Value& value, std::string& comment);
/// Appends ` at "file":12:3 node "name"`, or nothing.
void append_location(std::string& to, const Location& location);
/// Appends `[#0-#3,#7]`; runs of consecutive indices become ranges.
void append_indices(std::string& to, std::string_view sigil, std::span<const uint32_t> indices);
/// Ends the statement with `  // comment` unless `comment` is empty, and clears it.
void end_line(std::string& to, std::string& comment);

}  // namespace rannc::ir
