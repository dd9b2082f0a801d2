/// Reads weights of a stage as tensors.
#pragma once

#include <ATen/ATen.h>

#include "runtime/bundle/safetensors.h"

namespace rannc::runtime {

/// Reads one tensor of a weights file into fresh memory.
Result<at::Tensor> read_tensor(const SafetensorsFile& file, const SafetensorsFile::Entry& entry);

}  // namespace rannc::runtime
