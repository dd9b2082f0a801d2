/// What the values of a graph are computed from.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// Facts about values by their origin. A gradient that does not flow changes nothing: what a detached activation is
/// computed from depends on parameters. Tasks may be added to the graph meanwhile. Types must be known.
class Origins {
 public:
  /// `notes`: what the file says of stored tensors. A float tensor that it does not list counts as a parameter unless
  /// it is a number of the model's code, has one element and is no weight, or is a table in which inputs are looked up.
  Origins(const ir::Graph& graph, const ir::StoredNotes& notes) : graph_(graph), notes_(notes) {}

  bool from_inputs(ValueId value) { return facts(value).inputs; }
  bool from_parameters(ValueId value) { return facts(value).parameters; }
  /// Whether the value combines samples of a mini-batch: it has none itself, but depends on them or on their number.
  bool is_total(ValueId value) { return facts(value).total; }
  /// Whether the value depends on another value that combines samples.
  bool reads_total(ValueId value) { return facts(value).above; }
  /// Whether inputs and sizes alone determine the value, so that it is known before a step.
  bool is_determined(ValueId value);
  /// The same for a value that combines samples.
  bool is_count(ValueId value) { return is_total(value) && is_determined(value); }

 private:
  struct Facts {
    bool inputs = false, parameters = false, random = false, total = false, above = false;
  };
  const Facts& facts(ValueId value);
  Facts find(ValueId value) const;
  bool may_be_trained(ValueId stored) const;

  const ir::Graph& graph_;
  const ir::StoredNotes& notes_;
  std::vector<Facts> known_;  // of the first values
};

/// Whether a value has one element.
bool is_single(const ir::Graph& graph, ValueId value);
/// Whether a value has an axis of samples, even if its elements combine several of them.
bool has_samples(const ir::Graph& graph, ValueId value);

}  // namespace rannc::passes
