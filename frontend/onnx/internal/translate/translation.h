/// Translates nodes in order into tasks, with function calls and subgraphs.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/internal/growth.h"
#include "frontend/internal/size_conditions.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/state/detached.h"
#include "frontend/onnx/internal/state/program_state.h"
#include "frontend/onnx/internal/state/training_mode.h"
#include "frontend/onnx/internal/state/unweighted.h"
#include "frontend/onnx/internal/translate/scope.h"
#include "onnx/defs/schema.h"

namespace rannc::frontend {

/// Branches taken on conditions of sizes that nothing decides.
struct BranchChoices {
  std::set<std::string> other;     ///< nodes that take the outcome that is not preferred
  std::vector<std::string> taken;  ///< nodes that chose an outcome, in order
};

class Translation {
 public:
  using Source = Node::Source;
  /// All arguments must outlive the translation.
  Translation(const std::string& file, const ImportOptions& options, const Functions& functions, const Source& source,
              ExternalData& external, ImportNotes& notes, Growth& growth, BranchChoices choices)
      : file_(file),
        options_(options),
        functions_(functions),
        source_(source),
        external_(external),
        notes_(notes),
        growth_(growth),
        choices_(std::move(choices)),
        state_(notes),
        detached_(state_, notes) {}

  Result<void> add_node(Scope& scope, const ONNX_NAMESPACE::NodeProto& node);
  /// Adds a stored tensor.
  Result<void> add_initializer(Scope& scope, const ONNX_NAMESPACE::TensorProto& proto);
  Result<void> define(Scope& scope, const std::string& name, ValueId value, const Place& where);
  /// Returns the tensor with a name visible from the scope. Captures it if it is in an enclosing region.
  Result<ValueId> look_up(const Scope& scope, const std::string& name, const Place& where);
  /// Reads facts about the whole graph. Call it before the first node.
  void begin(const ONNX_NAMESPACE::GraphProto& graph) {
    state_.list(graph);
    for (const auto& output : graph.output()) outputs_.insert(output.name());
  }
  /// Records facts that follow from all nodes together. Call it after the last node.
  void finish(ir::Graph& graph, const ONNX_NAMESPACE::GraphProto& file) {
    unweighted_.note(graph, notes_);
    training_mode_.note(file_, notes_);
    detached_.note(graph, file);
    state_.finish(graph, detached_.values().merged(), detached_.values().omitted());
  }
  const UnequalSymbols& unequal_symbols() const { return unequal_symbols_; }
  const BranchChoices& branch_choices() const { return choices_; }

 private:
  /// Meaning of a name: a tensor, a list, or nothing if a call omits an optional input.
  struct Item {
    ValueId value;
    std::optional<List> list;
  };
  /// Results of one run of a subgraph.
  using Items = std::vector<Item>;

  Place at(const Scope& scope, const ONNX_NAMESPACE::NodeProto& node) const { return {file_, scope.prefix, &node, {}}; }

  Result<void> count(const Scope& scope, const Place& where) {
    if (growth_.add(scope.region.graph, scope.region.counted)) return {};
    return growth_.excess(scope.region.graph, scope.maker, where);
  }

  // --- names
  Result<void> define(Scope& scope, const std::string& name, Item item, const Place& where);
  Result<Item> item(const Scope& scope, const std::string& name, const Place& where);
  Result<Node::Wiring> wire(const Scope& scope, const ONNX_NAMESPACE::NodeProto& node);
  Result<void> define_outputs(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, Items items);
  /// Likewise for a node whose outputs are all tensors. Invalid: not supported.
  Result<void> define_outputs(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, const std::vector<ValueId>& values);

  // --- stored tensors of subgraphs (stored_in_bodies.cc)
  Result<void> add_stored(Scope& scope, const ONNX_NAMESPACE::TensorProto& proto);
  /// Handles a node of a subgraph that only stores or renames a stored tensor. Returns false for any other node.
  Result<bool> stores(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset);
  /// Adds the zero bias that the exporter omitted from a node of a subgraph.
  void restore_bias(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, Node::Wiring& wiring);
  /// Defines `name` as the value that `make` adds to the model's graph. `make` runs once per `key` and gets the name of
  /// the value.
  template <class Make>
  Result<void> share(Scope& scope, const std::string& key, const std::string& name, const Place& where, Make&& make);
  std::string name_of_stored(const Scope& scope, const std::string& name) const;
  /// Forgets stored tensors that were added to a graph that is now restored to fewer values.
  void forget_stored(const Region& region);

  // --- single nodes and functions
  Result<void> translate(Scope& scope, const ONNX_NAMESPACE::NodeProto& node);
  Result<void> check_node(const Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset) const;
  Result<void> call_schema(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset);
  Result<std::vector<ONNX_NAMESPACE::TypeProto>> operand_types(const Scope& scope,
                                                               const ONNX_NAMESPACE::NodeProto& node);
  Result<void> call(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, const ONNX_NAMESPACE::NodeProto& completed,
                    const ONNX_NAMESPACE::FunctionProto& function, const Opsets& opsets);

  // --- attempts that may be undone (branches.cc)
  /// A region before an attempt. The copy of its graph counts as growth until the attempt is kept or undone.
  struct Attempt {
    ir::Graph graph;
    std::map<ValueId, ValueId> taken;
    std::map<std::string, ValueId, std::less<>> of;
    Counted counted;
    uint64_t grown = 0, copy = 0;
  };
  Attempt begin_attempt(const Region& region);
  void keep(const Attempt& attempt) { growth_.set_back(growth_.bytes() - attempt.copy); }
  void undo(const Attempt& attempt, Region& region);

  // --- If (branches.cc)
  struct Branches;
  Result<void> add_if(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset);
  /// Translates one branch in place.
  Result<void> take_branch(Scope& scope, const Branches& branches, bool holds);
  /// Assumes the sizes of an outcome, the preferred one first, and takes its branch.
  Result<void> assume_branch(Scope& scope, const Branches& branches, const std::array<Outcome, 2>& outcomes);
  /// Adds one task with both branches as bodies.
  Result<std::vector<ValueId>> branch_task(Scope& scope, const Branches& branches);

  // --- subgraphs (subgraphs.cc)
  struct Cycle;
  Result<void> add_control(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset);
  Result<void> close(OpenBody& open, const std::vector<ValueId>& outputs, const Runs& runs, const Location& where);
  Result<void> add_loop(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset);
  Result<void> add_scan(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset);
  Result<void> add_scan_of_samples(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset);
  void count_trips(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, Cycle& cycle);
  /// Returns the last states, followed by the stacked results of all trips.
  Result<Items> add_cycle(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset, const Cycle& cycle);
  Result<std::optional<Items>> unrolled(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset,
                                        const Cycle& cycle, int64_t most);
  /// Translates a loop over bags of equal length, all bags at once. Returns nothing for any other loop.
  Result<std::optional<Items>> as_bags(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset,
                                       const Cycle& cycle);
  Result<Items> as_task(Scope& scope, const ONNX_NAMESPACE::NodeProto& node, int opset, const Cycle& cycle);
  /// Names for one of several runs of a node's subgraphs.
  struct Run {
    std::string branch, trip;
    std::span<const std::string> outputs = {};  ///< the node's names for the results of the subgraph
  };
  /// Translates a subgraph into `region`, with `given` as its inputs.
  Result<Items> run(const Scope& scope, Region& region, const ONNX_NAMESPACE::NodeProto& node,
                    const ONNX_NAMESPACE::GraphProto& body, const Items& given, const Run& run);
  Result<std::vector<ValueId>> tensors(const Items& items, const Place& where) const;

  const std::string& file_;
  const ImportOptions& options_;
  const Functions& functions_;
  const Source& source_;
  ExternalData& external_;
  ImportNotes& notes_;
  Growth& growth_;
  BranchChoices choices_;
  UnequalSymbols unequal_symbols_;
  std::map<std::string, ValueId> stored_;       ///< stored tensors of subgraphs, by position in the file
  std::set<std::string, std::less<>> outputs_;  ///< names reserved for graph outputs
  uint32_t undone_ = 0;                         ///< abandoned attempts to unroll loops inside other bodies
  ProgramState state_;
  Unweighted unweighted_;
  Detached detached_;
  TrainingMode training_mode_;
};

}  // namespace rannc::frontend
