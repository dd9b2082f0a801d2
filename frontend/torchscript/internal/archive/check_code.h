/// Bounds how deep the code of an archive nests, before LibTorch parses it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::frontend::torchscript {

constexpr uint32_t kDeepestCode = 1000;    ///< nested blocks, brackets and operators
constexpr uint32_t kDeepestRepeated = 16;  ///< nested tuples and subscripts, each of which LibTorch compiles twice
constexpr uint32_t kMostExits = 100;       ///< `return`, `break`, `continue` of a function; LibTorch's time is cubic
constexpr uint32_t kDeepestType = 100;     ///< brackets in the text of a type

/// Returns a bound on the bytes of stack for parsing, compiling and importing the code. LibTorch recurses over
/// expressions, over blocks, and from each function to those that it calls, once each.
/// Errors name the file, the record and the line: nesting beyond the limits above, a method `__setstate__`, which
/// LibTorch would run while it loads the file, or a call that fills a text, which it may run.
Result<uint64_t> code_stack_bytes(std::string_view code, const std::string& path, const std::string& record);

/// Returns how deep brackets nest in the text of a type.
uint32_t bracket_depth(std::string_view type);

}  // namespace rannc::frontend::torchscript
