/// One loop of a stage as C++.
#pragma once

#include <string>

#include "ir/program/program_loop.h"

namespace rannc::codegen {

struct NativeLoop {
  std::string text;      ///< a function of type `rannc::native::Loop`
  uint32_t scratch = 0;  ///< rows that its passes hand over
};

/// Writes the passes of a loop over the columns of a row. `name` is the function's.
NativeLoop native_loop(const std::string& name, const ir::ProgramLoop& loop);

}  // namespace rannc::codegen
