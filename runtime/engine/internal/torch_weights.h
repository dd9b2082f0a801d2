/// Reads weights of a stage as tensors.
#pragma once

#include <ATen/ATen.h>

#include "runtime/bundle/safetensors.h"
#include "runtime/device/device.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Reads one tensor of a weights file into fresh memory.
Result<at::Tensor> read_tensor(const SafetensorsFile& file, const SafetensorsFile::Entry& entry);
/// Reads a weight of an open bundle, which has all of them, into memory of `device`.
Result<at::Tensor> read_weight(const SafetensorsFile& file, const Weight& weight, Device& device);

}  // namespace rannc::runtime
