/// Parser of symbolic integer expressions.
#pragma once

#include <string_view>

#include "ir/dim/dim.h"

namespace rannc::ir {

/// Implements `Dim::parse` by recursive descent over + - * // / % and the functions floor, mod, max, min (any case).
/// The nesting depth is bounded.
Result<Dim> parse_dim(std::string_view text);

}  // namespace rannc::ir
