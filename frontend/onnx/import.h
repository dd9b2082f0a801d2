/// Reads ONNX models into task graphs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "frontend/import.h"

namespace rannc::frontend {

/// Inputs of one element that are the same number for all samples: `{"use_cache_branch", 0}`. They become constants,
/// decide branches, and what only the other branches read is no input of the graph.
using InputValues = std::map<std::string, double>;

/// The graph of an ONNX model of operator set 7 to 27: core operators only, types inferred, functions inlined. Every
/// float and integer initializer is a constant (recover-parameters decides what is trained, with the notes); tensors of
/// more than 256 bytes stay in the file, or in the external files, all of which must lie in the model's folder. Value
/// names are ONNX's; a location names the file and the node, or operator and first output of a node without a name. A
/// diagnostic for anything the file gets wrong; operators without a translation are listed all at once.
Result<Imported> read_onnx(const std::filesystem::path& path, const ImportOptions& options = {},
                           const InputValues& values = {});

/// The same of a model whose bytes are at hand: they must be what `path` holds, for that is where data is read later.
Result<Imported> read_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                 const ImportOptions& options = {}, const InputValues& values = {});

/// The graph alone.
Result<ir::Graph> import_onnx(const std::filesystem::path& path, const ImportOptions& options = {});
Result<ir::Graph> import_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                    const ImportOptions& options = {});

}  // namespace rannc::frontend
