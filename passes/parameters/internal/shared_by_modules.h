/// Finds stored tensors that stand for parameters of several modules.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// Per stored tensor, and per renaming of one, which nodes read it.
using Readings = decltype(ir::StoredNotes::readings);

/// A parameter that several modules read.
struct SharedByModules {
  ValueId parameter;
  std::set<std::string> modules;
  /// Whether the exporter made one of several: all elements are one number, as biases and scales of a fresh model are;
  /// or the modules are alike but for a number in their paths, as copied layers are, and use it alike. What is left is
  /// a tie that the model's author made: an embedding that is the head's weight too.
  bool merged = false;
};

/// Those of `parameters` that more than one module reads, in that order. Linear; reads the bytes of those it finds.
std::vector<SharedByModules> shared_by_modules(const ir::Graph& graph, const std::vector<ValueId>& parameters,
                                               const Readings& readings);

}  // namespace rannc::passes
