/// Writes copies of ONNX models with other numbers in their stored tensors.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Input to `copy_onnx`.
struct ModelCopy {
  std::filesystem::path from, to;
  /// The imported model at `from`, whose stored values have their new numbers. Passes may have split merged
  /// initializers into values with other names.
  const ir::Graph& graph;
  std::map<ValueId, ir::TensorData> before;  ///< per stored value, its data in the file
  bool replace = false;                      ///< overwrite an existing file at `to`
};

struct CopyReport {
  size_t replaced = 0;             ///< initializers and constants with other numbers
  std::vector<std::string> added;  ///< new initializers, where `from` stored several parameters in one
  std::string data_file;           ///< file of the external tensors; empty if all are in the model
};

/// Writes a copy of `from` to `to` in which only the numbers of stored tensors differ. If parameters that share an
/// initializer now differ, one of them gets a new initializer. It replaces a renaming Identity, or the operand of the
/// reading nodes is renamed. External tensors are written to one file `<to>.data`, which is moved into place before
/// `to`. Each of the two files is written atomically.
///
/// Errors:
/// - `to` is `from` or already exists without `replace`, or its data file is one that `from` reads.
/// - A changed value is no initializer of the model's graph, or is read in functions or bodies. All such values are
///   named.
Result<CopyReport> copy_onnx(const ModelCopy& copy);

}  // namespace rannc::frontend
