/// What a frontend is told and what it hands out, whatever the file's format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "ir/state/training_notes.h"

namespace rannc::frontend {

/// How a model that mixes its samples is read: no symbol counts them, and no input has an axis of them.
struct WholeBatch {
  /// What the symbol that would count samples becomes, and other names of it. Absent: each stays a symbol, as of any
  /// size that data bind, and no two are taken for one.
  std::optional<uint32_t> samples = {};
};

/// What a user may say about a model file, and how much of it is read at most.
struct ImportOptions {
  /// The symbol that counts samples. Absent: the only one with `batch` in its name, on whichever axis; else the one on
  /// axis 0 of the first input that has one.
  std::optional<std::string> batch_symbol;
  /// Symbols of the file that are equal though it names them apart: `{"s53", "s70"}` reads s53 as s70. Symbols that
  /// name only axis 0 of inputs of rank 2 and more are taken for the batch without being listed.
  std::map<std::string, std::string> same_symbol;
  /// Present: the graph is left without a batch symbol.
  std::optional<WholeBatch> whole = {};
  /// Whether an external file may be absent: its tensors have a type and no data, enough to plan a model with.
  bool missing_weights = false;
  /// Types of inputs of a file that has none, in order: `tokens=i64[batch,128]`. Of TorchScript; a program of
  /// torch.export has types, whose inputs and symbols are called so.
  std::vector<std::string> inputs;
  /// Names of outputs, in order. Of PyTorch's files alone.
  std::vector<std::string> outputs;
  /// Names of outputs that are needed, as those that a loss reads; empty, or where the model has none of them: all.
  /// Another one is left out, with a note, where it cannot be translated.
  std::vector<std::string> asked = {};
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

}  // namespace rannc::frontend
