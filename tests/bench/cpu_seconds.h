/// The clock of benchmarks of one process.
#pragma once

#include <ctime>

namespace rannc::bench {

/// CPU time of this process: other work on the machine does not count.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace rannc::bench
