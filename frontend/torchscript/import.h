/// Reads archives of PyTorch into task graphs.
#pragma once

#include <filesystem>

#include "frontend/import.h"

namespace rannc::frontend {

/// Parses an archive of `torch.jit.save` (traced, scripted or frozen) or `torch.export.save`, detected from its
/// content.
/// - Calls become core operators with inferred types, or foreign operators that LibTorch's dispatcher runs.
/// - Parameters and buffers are constants named as in `state_dict`. The notes list which of them are parameters.
/// - Tensors of more than 256 bytes stay in the archive if it stores them uncompressed.
/// - A location is the file and line of the Python code, if the archive contains them.
/// Returns a diagnostic for anything else. One diagnostic lists all operators that can be neither, with reasons.
///
/// For a TorchScript module the graph is `forward` for the input types in `options`, in the order of forward's
/// arguments. A name that is not an argument's renames an input. Submodule calls are inlined. Loops and branches are
/// evaluated from sizes and constants. An exported program contains its inputs; `options` may rename them and the
/// symbols of their sizes.
Result<ImportParsed> parse_torch(const ModelSource& source, uint64_t max_bytes);

/// Parses and imports an archive.
Result<Imported> read_torch(const std::filesystem::path& path, const ImportOptions& options = {});

}  // namespace rannc::frontend
