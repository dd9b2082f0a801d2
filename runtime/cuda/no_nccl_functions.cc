// A plug-in that was built without NCCL.
#include "runtime/cuda/nccl_functions.h"

namespace rannc::cuda {

const runtime::NcclTable* nccl_functions() { return nullptr; }

}  // namespace rannc::cuda
