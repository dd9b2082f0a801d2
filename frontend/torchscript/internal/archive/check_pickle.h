/// Checks a pickle of an archive before LibTorch runs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/torchscript/internal/archive/zip_directory.h"
#include "ir/base/diagnostic.h"

namespace rannc::frontend::torchscript {

constexpr uint32_t kDeepestPickle = 500;  ///< objects within objects

struct PickleLimits {
  uint64_t most_objects = 0;       ///< objects, those that are read several times counted so
  uint64_t most_tensor_bytes = 0;  ///< bytes of all tensors that it reads
};

/// Where a pickle lies.
struct PickleRecord {
  const std::string& path;  ///< of the archive
  std::string name;         ///< of the record
  std::string tensors;      ///< folder of its tensors in the archive, with a slash
  const ZipDirectory& directory;
  bool is_debug = false;  ///< whether it lists places of the author's code
};

/// Follows the instructions of a pickle without creating what they describe. LibTorch trusts them: it reserves the
/// memory that they name, and reads tensors beyond their records.
/// Errors name the file, the record and the byte:
/// - instructions, classes and functions that torch.jit.save does not write, or operands of other kinds;
/// - objects that contain themselves, or nest beyond the limits;
/// - tensors that are larger than their records, or that reach beyond their storages.
Result<void> check_pickle(std::string_view bytes, const PickleRecord& record, const PickleLimits& limits);

}  // namespace rannc::frontend::torchscript
