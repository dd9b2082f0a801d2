/// What a model's file says of training that its graph does not do.
#pragma once

#include <map>
#include <set>
#include <string>

namespace rannc::ir {

/// A dropout that a graph has as an identity, or not at all.
struct LostDropout {
  double drop = 0;  ///< the share that it drops
  /// Whether the file says that it was on: its program was exported in training mode. Else it is off as the rest is.
  bool asked = false;
  bool operator==(const LostDropout&) const = default;
};

/// From the frontend that reads a file to the pass that brings training back.
struct TrainingNotes {
  /// By name of node the innermost module that it belongs to, as `bert.encoder.layer.0`, where the file knows it.
  std::map<std::string, std::string> modules;
  /// All modules that were called, those around others too. A list of modules is not called, its elements are.
  std::set<std::string> called;
  /// By the name of the value whose elements they drop.
  std::map<std::string, LostDropout> dropouts;
  /// Results of batch normalisations by fixed statistics that were in training mode in the exported program.
  std::set<std::string> normalised;
};

}  // namespace rannc::ir
