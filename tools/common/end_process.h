/// Ends a program quickly.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace rannc::tools {

/// Flushes all streams and ends the process. Static objects are not destroyed: LibTorch's take as long as a quarter of
/// a small run. Builds with a sanitizer destroy them, so that leaks are found.
[[noreturn]] inline void end_process(int code) {
#ifdef __SANITIZE_ADDRESS__
  std::exit(code);
#else
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
#endif
}

}  // namespace rannc::tools
