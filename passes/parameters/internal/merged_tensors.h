/// Takes apart what exporters made one tensor of.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// What is known of tensors that several readers have.
struct SharedTensors {
  const ir::StoredNotes& file;
  std::vector<bool> trained;   ///< by value, what uses and file make a parameter
  std::vector<bool> computed;  ///< by value, what the exporter computed from parameters: one tensor, by record
  std::vector<std::string> untied = {};  ///< patterns: each module gets its own
};

/// Exporters keep one of several tensors of equal values: all zero biases of a fresh model, the weights of copied
/// layers. Each reading says, or does not, which tensor the program reads there (`ir::Reading`). Readings that say
/// different things get tensors of their own, with the same data:
/// - by the names that they say;
/// - of a trained tensor that no list of the program speaks for, by the path of the module and the place of the
/// operand, where
///   the tensor is one number repeated, or modules that are alike but for a number in their paths use it alike;
/// - of what is untied, by the path of the module.
/// Renamings by Identity name another tensor where exporters of ONNX wrote them; they go, but those that the graph
/// gives out. What nothing tells apart stays one.
///
/// Linear in the graph and the readings.
struct TakenApart {
  bool changed = false;
  std::map<std::string, std::string> parted = {};  ///< by the name of each new tensor the one that it was part of
  /// Of the tensors that came apart, and of the new ones: who reads them now, and under which names.
  std::map<std::string, std::vector<ir::Reading>> readings = {};
};
TakenApart take_apart(ir::Graph& graph, const SharedTensors& known);

}  // namespace rannc::passes
