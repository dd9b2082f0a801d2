/// Random numbers in the memory of a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "runtime/device/plugin.h"

namespace rannc::cuda {

/// Enqueues the generation of `random_input` on a stream.
cudaError_t fill_random(const runtime::DeviceRandom& random_input, cudaStream_t stream);

}  // namespace rannc::cuda
