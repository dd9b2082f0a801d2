/// Maps the tensors of a folder of NumPy files.
#pragma once

#include <string>

#include "runtime/train/batch.h"

namespace rannc::runtime {

/// Whether the folder has a folder `x` or `labels`.
bool is_npy_folder(const std::string& path);

/// Returns the tensors `x/<input>.npy` as `<input>`, and `labels/<name>.npy` as `labels/<name>`. They are read from
/// disk when they are first used, keep their files mapped, and must not be modified. Errors name the file: it is not of
/// the form that NumPy writes, has another byte order or column-major data, or too few or too many bytes.
Result<Batch> map_npy_folder(const std::string& path);

}  // namespace rannc::runtime
