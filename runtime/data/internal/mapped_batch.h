/// Tensors of mapped files.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/base/mapped_file.h"
#include "runtime/data/batch.h"

namespace rannc::runtime {

/// Tensors that are read from disk when they are first used. They keep their files mapped, and must not be modified.
struct MappedBatch {
  Batch tensors;
  std::vector<std::shared_ptr<const MappedFile>> files;  ///< to be checked before tensors are read
};

/// Returns all tensors of a .safetensors file as one batch, `x/<input>` as `<input>`. Only tensors that the file does
/// not align are copied.
Result<MappedBatch> map_batch(const std::string& path);

/// Returns the tensor at this offset, which keeps the file mapped. The file must contain its bytes.
at::Tensor mapped_tensor(const std::shared_ptr<const MappedFile>& file, const TensorSpec& spec, uint64_t offset);

}  // namespace rannc::runtime
