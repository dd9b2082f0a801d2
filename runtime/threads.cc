#include "runtime/threads.h"

#include <ATen/Parallel.h>

namespace rannc::runtime {

void set_threads(int threads) { at::set_num_threads(threads); }

}  // namespace rannc::runtime
