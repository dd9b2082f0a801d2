/// Writes copies of ONNX models whose stored tensors have other numbers.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// What a copy is made of.
struct ModelCopy {
  std::filesystem::path from, to;
  /// The model at `from` as imported, its stored values with their new numbers. Passes may have parted initializers
  /// that were merged, under names of their own.
  const ir::Graph& graph;
  std::map<ValueId, ir::TensorData> before;  ///< per stored value, what the file has
  bool replace = false;                      ///< over what is at `to`
};

struct CopyReport {
  size_t replaced = 0;             ///< initializers and constants with other numbers
  std::vector<std::string> added;  ///< initializers that `from` has not: it held several parameters in one
  std::string data_file;           ///< of tensors outside of the model; empty: all are inside
};

/// Writes `from` with other numbers to `to`, everything else as it is. Where parameters that share an initializer
/// differ now, one of them gets an initializer of its own: a renaming Identity becomes it, or the operand of the nodes
/// that read it is renamed. Tensors in external files go to one file `<to>.data`, which takes its place before `to`
/// does; each of the two is there whole or not at all.
///
/// Errors: `to` is `from`, or there already, or its data file would be one that `from` reads; a changed value that is
/// no initializer of the model's graph, or whose readers are no nodes of it (in functions and bodies): all of them are
/// named.
Result<CopyReport> copy_onnx(const ModelCopy& copy);

}  // namespace rannc::frontend
