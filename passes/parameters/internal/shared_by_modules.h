/// Finds stored tensors that are parameters of several modules.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// For each stored tensor, and each renaming of one, the nodes that read it.
using Readings = decltype(ir::StoredNotes::readings);

/// A parameter that several modules read.
struct SharedByModules {
  ValueId parameter;
  std::set<std::string> modules;
  /// Whether the exporter merged several parameters. All elements are one number, as biases and scales of a fresh model
  /// are, or the paths of the modules differ only in a number, as in copied layers, and they use it alike. Otherwise it
  /// is a tie by the model's author, such as an embedding that is also the weight of the head.
  bool merged = false;
};

/// Returns those of `parameters` that more than one module reads, in that order. Linear; reads the bytes of those it
/// finds.
std::vector<SharedByModules> shared_by_modules(const ir::Graph& graph, const std::vector<ValueId>& parameters,
                                               const Readings& readings);

}  // namespace rannc::passes
