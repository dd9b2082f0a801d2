/// Reads ONNX models into task graphs.
#pragma once

#include <filesystem>
#include <string_view>

#include "frontend/import.h"

namespace rannc::frontend {

/// Parses an ONNX model of operator sets 7 to 27. The import has core operators only, types inferred, functions
/// inlined.
/// - Every float and integer initializer is a constant. The pass recover-parameters decides from the notes which of
///   them are trained.
/// - Tensors of more than 256 bytes stay in the file or in external files, which must lie in the model's folder.
/// - Value names are those of ONNX. A location names the file and the node. An unnamed node is identified by its
///   operator and first output.
/// Returns a diagnostic for an invalid file. One diagnostic lists all operators without a translation.
Result<ImportParsed> parse_onnx(const ModelSource& source, uint64_t max_bytes);

/// Parses and imports a model.
Result<Imported> read_onnx(const std::filesystem::path& path, const ImportOptions& options = {});

/// Likewise for a model in memory. `bytes` must equal the content of `path`, from which tensor data is read later.
Result<Imported> read_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                 const ImportOptions& options = {});

/// Like `read_onnx`, but returns only the graph.
Result<ir::Graph> import_onnx(const std::filesystem::path& path, const ImportOptions& options = {});
Result<ir::Graph> import_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                    const ImportOptions& options = {});

}  // namespace rannc::frontend
