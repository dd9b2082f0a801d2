/// NCCL's functions for the runtime.
#pragma once

#include "runtime/device/nccl_table.h"

namespace rannc::cuda {

/// Null if the plug-in was built without NCCL.
const runtime::NcclTable* nccl_functions();

}  // namespace rannc::cuda
