/// Separates tensors that exporters merged into one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// Facts about tensors with several readers.
struct SharedTensors {
  const ir::StoredNotes& file;
  std::vector<bool> trained;   ///< by value: a parameter according to uses and file
  std::vector<bool> computed;  ///< by value: recorded as computed by the exporter from parameters, hence one tensor
  std::vector<std::string> untied = {};  ///< patterns of tensors of which each module gets its own
};

/// Exporters keep one of several tensors of equal values, such as all zero biases of a fresh model or the weights of
/// copied layers. A reading may record which tensor the program reads there (`ir::Reading`). Readings of different
/// tensors get tensors of their own, with the same data. They are distinguished
/// - by the recorded names;
/// - for a trained tensor that no list of the program mentions, by the path of the module and the operand index, if the
///   tensor is one number repeated, or if modules whose paths differ only in a number use it alike;
/// - for an untied tensor, by the path of the module.
/// Exporters of ONNX write an Identity where a tensor has another name. Such renamings are removed unless they are
/// graph outputs. Readings that nothing distinguishes keep one tensor.
///
/// Linear in the graph and the readings.
struct TakenApart {
  bool changed = false;
  std::map<std::string, std::string> parted =
      {};  ///< name of each new tensor -> name of the tensor that it was part of
  /// For separated tensors, old and new: their readers now, and under which names.
  std::map<std::string, std::vector<ir::Reading>> readings = {};
};
TakenApart take_apart(ir::Graph& graph, const SharedTensors& known);

}  // namespace rannc::passes
