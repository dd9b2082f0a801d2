/// Reads ONNX models into task graphs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/graph.h"
#include "ir/stored_notes.h"
#include "ir/training_notes.h"

namespace rannc::frontend {

/// What a user may say about a model file, and how much of it is read at most.
struct ImportOptions {
  /// The symbol that counts samples. Absent: the only one with `batch` in its name, on whichever axis; else the one on
  /// axis 0 of the first input that has one.
  std::optional<std::string> batch_symbol;
  /// Symbols of the file that are equal though it names them apart: `{"s53", "s70"}` reads s53 as s70. Symbols that
  /// name only axis 0 of inputs of rank 2 and more are taken for the batch without being listed.
  std::map<std::string, std::string> same_symbol;
  /// Whether an external file may be absent: its tensors have a type and no data, enough to plan a model with.
  bool missing_weights = false;
  uint64_t max_file_bytes = uint64_t{2} << 30;  ///< Protocol Buffers cannot hold more
  uint64_t max_nodes = 4'000'000;               ///< after inlining of functions
  /// Trips that a loop may make at most where their number depends on data; absent: such a loop is an error.
  std::optional<int64_t> max_trips;
};

/// What a file says that the graph has no place for.
struct ImportNotes {
  uint64_t nodes = 0;  ///< of the file's graph; those of functions and bodies do not count
  ir::StoredNotes stored;
  ir::TrainingNotes training;
  /// What nodes' metadata say of gradients and ONNX does not, recovered.
  std::vector<Note> remarks;
  /// The same where it is lost though the metadata speak of it.
  std::vector<Note> open;
  /// What users should know of nodes, and of how many it is so.
  std::map<std::string, size_t> counted_remarks;
  /// The same of what is probably not what users mean.
  std::map<std::string, size_t> counted_warnings;
};

struct Imported {
  ir::Graph graph;
  ImportNotes notes;
};

/// The graph of an ONNX model of operator set 7 to 27: core operators only, types inferred, functions inlined. Every
/// float and integer initializer is a constant (recover-parameters decides what is trained, with the notes); tensors of
/// more than 256 bytes stay in the file, or in the external files, all of which must lie in the model's folder. Value
/// names are ONNX's; a location names the file and the node, or operator and first output of a node without a name. A
/// diagnostic for anything the file gets wrong; operators without a translation are listed all at once.
Result<Imported> read_onnx(const std::filesystem::path& path, const ImportOptions& options = {});

/// The same of a model whose bytes are at hand: they must be what `path` holds, for that is where data is read later.
Result<Imported> read_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                 const ImportOptions& options = {});

/// The graph alone.
Result<ir::Graph> import_onnx(const std::filesystem::path& path, const ImportOptions& options = {});
Result<ir::Graph> import_onnx_bytes(std::string_view bytes, const std::filesystem::path& path,
                                    const ImportOptions& options = {});

}  // namespace rannc::frontend
