/// Composes the notes on stored tensors: what was recovered, and what is in doubt.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/parameters/internal/computed_copies.h"
#include "passes/parameters/internal/parameter_roles.h"
#include "passes/parameters/internal/recomputed_tensors.h"
#include "passes/parameters/internal/tied_parameters.h"
#include "passes/parameters/internal/untrained_state.h"
#include "passes/parameters/recover_parameters.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Tensors whose uses alone decided whether they are trained.
struct ByUse {
  std::set<std::string> trained;
  /// Not trained, although they have names of the program's modules and interact with data.
  std::set<std::string> left;
};

/// Adds the notes of `recover-parameters` to the context of the pass, in the order of calls. `file`: the notes of the
/// file with the readings of separated tensors. Kinds must have been decided before notes on trained tensors.
class ParameterReport {
 public:
  ParameterReport(const StoredFacts& known, PassContext& context) : known_(known), context_(context) {}

  void apart(size_t parted, size_t restored);
  void recomputed(const std::set<std::string>& made);
  /// Tensors that follow from the file's parameters in an unknown way; an error if merged parameters are refused. Omits
  /// tensors of a kind that was specified, and those that no gradient reaches.
  Result<void> not_recomputed(const ir::Graph& graph, const std::vector<Recomputed::Open>& open,
                              const std::map<ValueId, ir::ValueKind>& requested, const std::vector<Roles>& roles);
  void untrained(const ir::Graph& graph, const UntrainedState& found);
  void contradiction(const ir::Graph& graph, ValueId value, ir::ValueKind kind);
  /// Tensors without the name of a layer's weight or bias come first, because they may be buffers.
  void by_use(const ByUse& found);
  void alike(const std::vector<AlikeParameters>& found);
  /// Weights that an exporter wrote as numbers of the model's code, as Paddle's does and as in a frozen TorchScript
  /// module, together with added biases.
  void weights_in_code(const ir::Graph& graph, const std::vector<Roles>& roles);
  /// Derived tensors that are trained in place of what the file lacks, and what else the exporter computed.
  void derived(const ir::Graph& graph, const ir::StoredNotes& file, const std::vector<ComputedCopy>& copies);
  /// `state_dict` also has what no node reads.
  void unwritten(const ir::Graph& graph);
  /// Parameters that several modules read; an error if merged parameters are refused.
  Result<void> shared(const ir::Graph& graph, const std::vector<ValueId>& parameters, const ir::StoredNotes& file);

 private:
  void remark(std::string text) { context_.remarks.push_back({{}, std::move(text)}); }
  void warn(std::string text) { context_.warnings.push_back({{}, std::move(text)}); }
  Result<void> warn_or_refuse(std::vector<Note> found, std::string refusal);
  void stand_ins(const ir::Graph& graph);
  void traced(const ir::Graph& graph, const ir::StoredNotes& file, const std::vector<ComputedCopy>& copies);
  void computed(const ir::Graph& graph);

  const StoredFacts& known_;
  PassContext& context_;
};

}  // namespace rannc::passes
