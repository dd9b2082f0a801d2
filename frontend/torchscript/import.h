/// Reads archives of PyTorch into task graphs.
#pragma once

#include <filesystem>

#include "frontend/import.h"

namespace rannc::frontend {

/// The graph of a program that `torch.jit.save` wrote, traced, scripted or frozen, or `torch.export.save`: told by what
/// the archive holds. Core operators, types inferred, and tasks of LibTorch's dispatcher where none of them is the
/// call. Parameters and buffers are constants under the names that `state_dict` has, and the notes say which are
/// parameters; tensors of more than 256 bytes stay in the archive where it holds them uncompressed. A location is the
/// file and line of the Python code, where the archive carries it. A diagnostic for everything else; operators that can
/// be neither are listed all at once, with reasons.
///
/// Of a TorchScript module it is what `forward` does for inputs of the types that `options` gives, in the order of
/// forward's arguments; a name that is no argument's renames it. Calls of submodules are in place, loops and branches
/// follow from sizes and constants. An exported program says its inputs
/// itself; `options` may call them, and symbols of their sizes, otherwise.
Result<Imported> read_torch(const std::filesystem::path& path, const ImportOptions& options = {});

}  // namespace rannc::frontend
