/// Headers that generated sources include, as text.
#pragma once

#include <span>
#include <string_view>

namespace rannc::codegen {

struct NativeHeader {
  std::string_view name;  ///< path as in `#include`
  std::string_view text;
};

/// Those of `codegen/native/` and `runtime/native/`. A program that compiles stages needs no installed headers of
/// rannc.
std::span<const NativeHeader> native_headers();

}  // namespace rannc::codegen
