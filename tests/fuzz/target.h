/// What every fuzz target defines.
#pragma once

#include <string_view>

namespace rannc::fuzz {

/// Hands one input to the code under test, checks what must hold of its answer, and says whether it was accepted.
bool feed(std::string_view input);

}  // namespace rannc::fuzz
