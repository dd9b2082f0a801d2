/// Reads .npy files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/data/internal/mapped_batch.h"

namespace rannc::runtime {

/// The array of a .npy file.
struct NpyHeader {
  TensorSpec spec;
  uint64_t offset = 0;  ///< of the first element
};

/// Reads the header of a file with these bytes. Errors at `where`: it is not of the form that NumPy writes, has another
/// byte order or column-major data, or too few or too many bytes.
Result<NpyHeader> read_npy_header(std::string_view bytes, const Location& where);

/// Whether the folder has a folder `x` or `labels`.
bool is_npy_folder(const std::string& path);

/// Returns the tensors `x/<input>.npy` as `<input>`, and `labels/<name>.npy` as `labels/<name>`. Errors are those of
/// `read_npy_header`.
Result<MappedBatch> map_npy_folder(const std::string& path);

}  // namespace rannc::runtime
