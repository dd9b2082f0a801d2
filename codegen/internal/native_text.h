/// Literals and lines of generated C++.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rannc::codegen {

std::string integer(int64_t value);
/// A finite number, with a decimal point or an exponent, that reads back as the same double.
std::string decimal(double finite);
std::string number(double value);
/// A string literal.
std::string literal(std::string_view text);
/// Replaces control characters by spaces, and backslashes by slashes, for comments.
std::string one_line(std::string_view text);
/// Returns `text`, and after it `more`, as indented lines of at most 120 columns where they can be broken.
std::string wrapped(const std::string& text, const std::string& more = "");

}  // namespace rannc::codegen
