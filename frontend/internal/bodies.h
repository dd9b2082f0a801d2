/// Builds the bodies of branch and loop tasks.
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

/// A graph under construction: the model's, or the body of a task in the enclosing region. A body captures the values
/// that it reads from the enclosing region as inputs.
struct Region {
  ir::Graph& graph;
  Region* around = nullptr;
  std::map<ValueId, ValueId> taken = {};                ///< from an enclosing value to its counterpart here
  std::map<std::string, ValueId, std::less<>> of = {};  ///< from the name of a counterpart to the enclosing value
  Counted counted = {};                                 ///< the part of the graph that `Growth` has counted

  /// Returns the counterpart of a value of the enclosing region. A stored tensor keeps its data until the body is
  /// closed, so that translators can read it.
  ValueId take(ValueId value);
};

/// Execution frequency of a body.
struct Runs {
  bool repeated = false;
  std::optional<ir::Dim> trips = {};  ///< trip count of a repeated body, if it follows from sizes
};

/// A body under construction.
class OpenBody {
 public:
  explicit OpenBody(Region& around) : region_{graph_, &around} { graph_.set_batch_symbol(around.graph.batch_symbol()); }
  Region& region() { return region_; }
  /// Adds an explicit input. The task passes these in the order of the calls, before all captured values.
  ValueId add_input(const std::string& name, ir::ValueType type);
  /// Sets the outputs and removes dead tasks. Moves stored tensors and random inputs of the body to the enclosing
  /// graph, the latter with a row per trip. Returns an error for random inputs if the trip count is unknown.
  Result<void> close(const std::vector<ValueId>& outputs, const Runs& runs, const Location& where, ImportNotes& notes);
  /// Captured values of the enclosing region. Only for a closed body.
  const std::vector<ValueId>& taken() const { return taken_; }
  /// Random inputs of the enclosing region, of which each trip reads a row. A task passes them before `taken`. Only for
  /// a closed body.
  const std::vector<ValueId>& random() const { return random_; }
  /// Returns the body for a task that passes `handed` after the explicit inputs and `random`. `handed` consists of
  /// values of the enclosing region and contains all of `taken`.
  ir::Body body(const std::vector<ValueId>& handed) &&;

 private:
  /// Returns the enclosing value of a leaf. Moves a stored tensor of the body there.
  ValueId outside(ValueId leaf, ImportNotes& notes);
  /// Moves a random input of the body to the enclosing graph.
  Result<ValueId> random_outside(ValueId leaf, const ir::RandomInput& random_input, const Runs& runs,
                                 const Location& where);

  ir::Graph graph_;
  Region region_;
  std::vector<ValueId> taken_, leaves_;
  std::vector<ValueId> random_, random_leaves_;
};

}  // namespace rannc::frontend
