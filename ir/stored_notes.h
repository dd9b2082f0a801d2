/// What a model's file says of its stored tensors, for which a graph has no place.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/graph.h"

namespace rannc::ir {

/// From the frontend that reads a file to the pass that decides what is trained. All by value name.
struct StoredNotes {
  /// Values that `Constant` nodes make, constants that a translator adds, ones and zeros for normalisations without
  /// weights: numbers of the model's code, where initializers are tensors of its state.
  std::set<std::string> literals;
  /// Per float initializer, and per renaming of one by Identity, the modules whose nodes read it:
  /// `bert.encoder.layer.0`, or the node's own name where neither its name nor its metadata know a module.
  std::map<std::string, std::set<std::string>> readers;
  /// Of initializers that the exported program lists among its state: parameters, and what is none as a constant.
  std::map<std::string, ValueKind> listed;
  /// Stored tensors in places that operators define as a weight's though no core operator has the place: slopes of
  /// PRelu.
  std::set<std::string> weights;
};

}  // namespace rannc::ir
