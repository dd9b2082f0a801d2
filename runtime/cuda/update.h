/// Optimizer steps in the memory of a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "runtime/device/plugin.h"

namespace rannc::cuda {

/// Enqueues a step on a stream.
cudaError_t update_tensors(const runtime::DeviceUpdate& update, cudaStream_t stream);

}  // namespace rannc::cuda
