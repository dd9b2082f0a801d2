/// Spelling of the tokens of text IR.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/graph/attributes.h"
#include "ir/graph/graph.h"
#include "ir/graph/type.h"

namespace rannc::ir {

/// `"text"` with everything outside printable ASCII escaped.
std::string quote(std::string_view text);
/// Letters, digits and `_ . : $ -`: what makes a word.
bool is_word_char(char c);
/// The word as it is, or quoted where other characters occur in it.
void append_word(std::string& to, std::string_view word);
/// The longest front of `text` that may stand after a sigil without quotes.
std::string_view bare_name_prefix(std::string_view text);
/// Appends `sigil` and the name, quoted where it must be.
void append_name(std::string& to, char sigil, std::string_view name);
/// `0x1.8p+1`; exact.
std::string hexadecimal(double value);
/// `[0x1p+0,0x1.8p+1]`; `[0x]` where there are none.
void append_numbers(std::string& to, const std::vector<double>& numbers);
/// `f32[batch,12] samples 0 contents [1]`.
void append_type(std::string& to, const ValueType& type);
/// ` {a = 1}`, nothing where there are none; adds `a = 0.1` to `comment` for each number. Bodies are `@b<number>`, from
/// `first_body` on.
void append_attributes(std::string& to, const Attributes& attributes, std::string& comment, uint32_t first_body = 0);
/// ` = hex "…"` or ` = file "…" offset N bytes N`; few numbers go to `comment` in decimal.
void append_data(std::string& to, const Graph::Value& value, std::string& comment);
/// ` at "file":12:3 node "name"`, or nothing.
void append_location(std::string& to, const Location& location);
/// `[#0-#3,#7]`; runs of ascending neighbours as ranges.
void append_indices(std::string& to, std::string_view sigil, std::span<const uint32_t> indices);
/// Ends the statement, with `  // comment` unless that is empty; clears it.
void end_line(std::string& to, std::string& comment);

}  // namespace rannc::ir
