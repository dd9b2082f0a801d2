/// The number of threads LibTorch computes with.
#pragma once

#include <string>

namespace rannc::runtime {

/// Of one operator, for every device thread of this process. Process-wide, so a tool calls it, never the library.
void set_threads(int threads);

}  // namespace rannc::runtime
