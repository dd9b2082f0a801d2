/// Information about training in a model file that its graph does not represent.
#pragma once

#include <map>
#include <set>
#include <string>

namespace rannc::ir {

/// A dropout that a graph contains as an identity, or not at all.
struct LostDropout {
  double drop = 0;  ///< probability of dropping an element
  /// Whether the dropout was active because the program was exported in training mode.
  bool requested = false;
  bool operator==(const LostDropout&) const = default;
};

/// Notes from the frontend for the pass that restores training behavior.
struct TrainingNotes {
  /// By node name, the innermost module that contains it, such as `bert.encoder.layer.0`, if the file specifies it.
  std::map<std::string, std::string> modules;
  /// All modules that were called, including enclosing ones. A list of modules is not called, but its elements are.
  std::set<std::string> called;
  /// Lost dropouts, by the name of the value whose elements they drop.
  std::map<std::string, LostDropout> dropouts;
  /// Results of batch normalizations with fixed statistics that were in training mode in the exported program.
  std::set<std::string> normalised;
};

}  // namespace rannc::ir
