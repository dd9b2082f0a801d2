/// What a model's file says of its stored tensors, for which a graph has no place.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// A node of the file reads a stored tensor.
struct Reading {
  std::string node;      ///< as locations of tasks name it
  uint32_t operand = 0;  ///< of the node
  /// The module that the node belongs to, `bert.encoder.layer.0`; the node's own name where nothing says it.
  std::string module;
  /// What the program reads there, by the names of its state: one, or those that were joined into the tensor. Empty:
  /// nothing says it. Readings that name other tensors read others, whatever the exporter stored.
  std::vector<std::string> state;
};

/// From the frontend that reads a file to the pass that decides what is trained. All by value name.
struct StoredNotes {
  /// Values that `Constant` nodes make, constants that a translator adds, ones and zeros for normalisations without
  /// weights: numbers of the model's code, where initializers are tensors of its state.
  std::set<std::string> literals;
  /// Of each float initializer, and of each renaming of one by Identity, in the order of the nodes.
  std::map<std::string, std::vector<Reading>> readings;
  /// Of tensors that the exported program lists among its state: parameters, and what is none as a constant.
  std::map<std::string, ValueKind> listed;
  /// Those of them that are no part of `state_dict`.
  std::set<std::string> transient;
  /// By node, the bias that its call reads and the exporter left out, for it was all zeros.
  std::map<std::string, std::string> dropped_biases;
  /// Stored tensors that are weights though their readers do not show it: slopes of PRelu, recurrent weights, and named
  /// single numbers of a file of the legacy exporter.
  std::set<std::string> weights;
};

}  // namespace rannc::ir
