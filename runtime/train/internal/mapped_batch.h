/// Tensors of mapped files.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "ir/base/mapped_file.h"
#include "runtime/train/batch.h"

namespace rannc::runtime {

/// Returns all tensors of a .safetensors file as one batch, `x/<input>` as `<input>`. They are read from disk when they
/// are first used, keep the file mapped, and must not be modified. Only tensors that the file does not align are
/// copied.
Result<Batch> map_batch(const std::string& path);

/// Returns the tensor at this offset, which keeps the file mapped. The file must contain its bytes.
at::Tensor mapped_tensor(const std::shared_ptr<const MappedFile>& file, const TensorSpec& spec, uint64_t offset);

}  // namespace rannc::runtime
