/// Parts of a model that become bodies of tasks, and the graphs that tasks go to meanwhile.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/internal/growth.h"
#include "ir/graph/attributes.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// A graph that tasks go to: the model's, or the body of a task in the region around it, of which it takes what it
/// reads as inputs of its own.
struct Region {
  ir::Graph& graph;
  Region* around = nullptr;
  std::map<ValueId, ValueId> taken = {};                ///< from a value around to the one that stands for it here
  std::map<std::string, ValueId, std::less<>> of = {};  ///< the same backwards, by name
  Counted counted = {};                                 ///< how much of the graph `Growth` has seen

  /// The value here that stands for one of the region around. A stored tensor has its data until the body is done, so
  /// that translators can read it.
  ValueId take(ValueId value);
};

/// How often a body runs.
struct Runs {
  bool repeated = false;
  std::optional<ir::Dim> trips = {};  ///< of a repeated one, where their number follows from sizes
};

/// A body that a part of a model is translated into.
class OpenBody {
 public:
  explicit OpenBody(Region& around) : region_{graph_, &around} { graph_.set_batch_symbol(around.graph.batch_symbol()); }
  Region& region() { return region_; }
  /// An input that the task hands to it, in this order, before all that it takes of the graph around.
  ValueId add_input(const std::string& name, ir::ValueType type);
  /// What it makes, in this order. What is no longer needed goes; stored tensors of its own move to the graph around,
  /// as do random numbers: for as many trips as there are, an error where that is not known.
  Result<void> close(const std::vector<ValueId>& outputs, const Runs& runs, const Location& where, ImportNotes& notes);
  /// Of a closed body: values around that it takes.
  const std::vector<ValueId>& taken() const { return taken_; }
  /// Of a closed body: random numbers around, of which each trip takes a row. A task hands them before `taken`.
  const std::vector<ValueId>& drawn() const { return drawn_; }
  /// The body of a task that hands it, after its own inputs and `drawn`, these values around, among which are all that
  /// it takes.
  ir::Body body(const std::vector<ValueId>& handed) &&;

 private:
  /// The value around that a leaf stands for; a stored tensor of its own is moved there.
  ValueId outside(ValueId leaf, ImportNotes& notes);
  /// Random numbers that the body draws, drawn around it.
  Result<ValueId> drawn_outside(ValueId leaf, const ir::RandomInput& draw, const Runs& runs, const Location& where);

  ir::Graph graph_;
  Region region_;
  std::vector<ValueId> taken_, leaves_;
  std::vector<ValueId> drawn_, drawn_leaves_;
};

}  // namespace rannc::frontend
