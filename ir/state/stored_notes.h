/// Information about stored tensors in a model file that a graph does not represent.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// One read of a stored tensor by a node of the file.
struct Reading {
  std::string node;      ///< name of the node, as in task locations
  uint32_t operand = 0;  ///< of the node
  /// The module of the node, `bert.encoder.layer.0`; the node's own name if unknown.
  std::string module;
  /// State names of the tensors that the program reads there: one, or several that were joined into the stored tensor.
  /// Empty: unknown. Readings with different names read different tensors, even if the exporter stored one.
  std::vector<std::string> state;
};

/// Notes from the frontend for the pass that decides which values are trained. All by value name.
struct StoredNotes {
  /// Numbers from the model's code, in contrast to initializers, which are state tensors: results of `Constant` nodes,
  /// constants that an importer adds, ones and zeros for normalizations without weights.
  std::set<std::string> literals;
  /// Reads of each float initializer, and of each renaming of one by Identity, in the order of the nodes.
  std::map<std::string, std::vector<Reading>> readings;
  /// Kinds of the tensors that the exported program lists as state: parameter, or constant for all others.
  std::map<std::string, ValueKind> listed;
  /// Those of them that are not part of `state_dict`.
  std::set<std::string> transient;
  /// Parameters with a reading of which the file does not tell whether it is of them or of one of these others, which
  /// had equal values when the exporter merged them.
  std::map<std::string, std::set<std::string>> unclear;
  /// By node, the bias of its call that the exporter omitted because it was all zeros.
  std::map<std::string, std::string> dropped_biases;
  /// Per tensor that the exporter computed ahead of a run and recorded, the names of the stored tensors and of the
  /// intermediate values that it was computed from.
  std::map<std::string, std::vector<std::string>> folded;
  /// Stored tensors that are weights although their readers do not show it: slopes of PRelu, recurrent weights, and
  /// named scalars in files of the legacy exporter.
  std::set<std::string> weights;
};

}  // namespace rannc::ir
