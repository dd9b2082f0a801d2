/// Options and result of an import, common to all file formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/batching.h"
#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "ir/state/training_notes.h"

namespace rannc::frontend {

/// A model: a file, or its bytes in memory.
struct ModelSource {
  ModelSource(std::filesystem::path file) : path(std::move(file)) {}
  ModelSource(const char* file) : path(file) {}
  ModelSource(std::string file) : path(std::move(file)) {}

  std::filesystem::path path;  ///< of bytes: a name for messages, whose extension is the format's
  /// The file's content instead of that of `path`, and its size. Null: there is a file.
  std::shared_ptr<const std::byte> bytes = {};
  uint64_t size = 0;
  /// Numbers that a program of `torch.export` lacks, by `state_dict` names. Tensors of equal places are one tensor.
  std::map<std::string, ir::TensorData> tensors = {};

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.get()), size}; }
};

/// A user's statements about a model file, with the limits on what is read.
struct ImportOptions {
  /// The symbol that counts samples. Absent: the only symbol with `batch` in its name, on whichever axis, or else the
  /// symbol on axis 0 of the first input that has one there.
  std::optional<std::string> batch_symbol;
  /// Symbols of the file that are equal although their names differ: `{"s53", "s70"}` reads s53 as s70. A symbol that
  /// occurs only on axis 0 of inputs of rank 2 or more is read as the batch symbol without being listed.
  std::map<std::string, std::string> same_symbol;
  /// Fixed sizes by symbol: a number, or an affine expression in another symbol, such as `32*k`. Not the batch symbol.
  std::map<std::string, ir::Dim> sizes = {};
  /// `BatchKind::kWhole`: the graph gets no batch symbol, and no input a batch axis. All other kinds are read alike.
  Batching batching = {};
  /// Whether an external file may be absent. Its tensors then have a type but no data, which is enough for planning.
  bool missing_weights = false;
  /// Input types, in order: `tokens=i64[batch,128]`. TorchScript files need them. Files of torch.export contain types;
  /// there they rename inputs and symbols.
  std::vector<std::string> inputs;
  /// Names of outputs, in order. Only for PyTorch files.
  std::vector<std::string> outputs;
  /// Names of required outputs, such as those that a loss reads. All outputs are required if the list is empty or the
  /// model has none of them. Any other output that cannot be translated is omitted with a note.
  std::vector<std::string> required = {};
  /// One-element inputs of an ONNX file with a fixed number: `{"use_cache_branch", 0}`. They become constants and
  /// decide branches. Inputs that only the other branches read are omitted from the graph. For TorchScript, the
  /// arguments of `forward` that are numbers or booleans.
  std::map<std::string, double> input_values = {};
  uint64_t max_file_bytes = uint64_t{2} << 30;  ///< the limit of Protocol Buffers
  uint64_t max_nodes = 4'000'000;               ///< after inlining of functions
  /// Maximum number of trips of a loop whose trip count depends on data. Absent: such a loop is an error.
  std::optional<int64_t> max_trips;
};

/// Facts of a file that the graph cannot represent.
struct ImportNotes {
  uint64_t nodes = 0;  ///< nodes of the file's graph, without those of functions and bodies
  ir::StoredNotes stored;
  ir::TrainingNotes training;
  /// Gradient behavior that ONNX cannot express, recovered from the metadata of nodes.
  std::vector<Note> remarks;
  /// What the import left out or could not restore, without an effect on what is trained.
  std::vector<Note> open;
  /// Doubts about what is trained and about gradients.
  std::vector<Note> warnings;
  /// Remarks about nodes, each with the number of nodes that it applies to.
  std::map<std::string, size_t> counted_remarks;
  /// Likewise warnings about what the user probably did not intend.
  std::map<std::string, size_t> counted_warnings;
};

struct Imported {
  ir::Graph graph;
  ImportNotes notes;
};

/// Imports a parsed file with these options. Every call starts from the same parsed form, and none parses the file
/// again; data of tensors is read from it where the import depends on them. Not for concurrent calls.
using ImportParsed = std::function<Result<Imported>(const ImportOptions&)>;

}  // namespace rannc::frontend
