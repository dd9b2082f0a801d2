/// Determines which stored tensors are trained.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/state/stored_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

struct Roles;

/// A kind for all stored float tensors for which the name, or one of the names in the program's state, matches a
/// pattern (`*` and `?` are wildcards; patterns are separated by commas). A wildcard pattern that requests parameters
/// does not apply to running statistics, nor to numbers of the model's code that are not in the place of a weight.
struct KindPattern {
  std::string pattern;
  ir::ValueKind kind;
};

/// Facts about stored tensors that do not follow from their uses. By value name.
struct StoredFacts {
  std::map<std::string, ir::ValueKind> kinds = {};  ///< kinds that the user specifies
  ir::StoredNotes file = {};
  std::vector<KindPattern> patterns = {};  ///< frozen and trained parts; the last match counts; overrides `kinds`
  std::vector<std::string> tied = {};      ///< patterns of tensors that are one parameter if their values are equal
  std::vector<std::string> untied = {};    ///< patterns of parameters of which each module has its own
  enum class Merged : uint8_t {
    kAllowed,                   ///< trained as one, with a warning
    kRefused,                   ///< an error
  } merged = Merged::kAllowed;  ///< for parameters that the exporter merged and that nothing distinguishes
};

/// State after the pass of tensors that an exporter computed from parameters. Names are those in the file.
struct FoldedTensors {
  std::set<std::string> stand_ins;   ///< trained in place of parameters that the file lacks
  std::set<std::string> recomputed;  ///< computed by tasks now
};
FoldedTensors folded_tensors(const ir::Graph& graph, const StoredFacts& known);

/// If a file lists its program's parameters, the used ones are parameters, also those of one element. An unlisted
/// tensor was computed by the exporter:
/// - from a parameter that the file has: it is recomputed (`internal/recomputed_tensors.h`);
/// - from a parameter that the file lacks: it is trained in its place, with a warning;
/// - from no parameter: it is a constant. If the file does not record the origin, this holds only if the file lacks no
///   listed parameter.
///
/// Other files mark no parameters. A float tensor is then a parameter because of its uses. A name is evidence only for
/// single numbers, which occur in the same places whether they are learned or not.
///
/// Before => after: `constant` values of float type become `parameter` or `buffer`. `remarks` report contradicting
/// uses, `warnings` all that is in doubt about what is trained, `open` what the state of the program has beyond the
/// file. Tensors that exporters merged are separated under their own names
/// (`internal/merged_tensors.h`), dropped zero biases are restored (`internal/dropped_biases.h`), and copies of one
/// parameter are merged (`internal/tied_parameters.h`), so that the graph trains what the program has. The graph's
/// `state` maps the tensors of `state_dict`; a stored tensor without an entry is one under its own name. Frozen parts
/// are buffers that nothing updates: no gradient is computed for them.
///
/// - Parameters: weights and biases of linear and conv, scales and biases of normalizations, embedding tables (data of
///   gather), constant operands of matmul; vectors that are added or multiplied (one extent other than 1); added tables
///   of more extents, unless they are added to attention scores; concatenated tokens; data indexed by tuples; operands
///   of an exponential, softplus, sigmoid or tanh, such as decay rates. Uses are followed through tasks that depend on
///   no input, so a permuted, cast, expanded or normalised weight counts.
/// - Buffers: running statistics of batch_norm. The graph then specifies their update (`ir::Statistics`).
/// - Single numbers that multiply, or are added to, values or weights are parameters if the program lists them. In
///   files without a list they are parameters if their name is a path of modules (`block.0.scale`), or if an
///   exponential or the like is applied to a number that has a name of its own (`logit_scale`).
/// - Constants: literals, wherever they occur, and all other tensors: other single numbers outside of a weight's place,
///   masks (elements of -10,000 or less), rotary tables, attention biases, and whatever only feeds sizes or conditions.
///
/// A parameter that several modules read is a tie by the model's author, unless it is one number repeated or copied
/// layers read it. In these cases the exporter merged several parameters. If nothing distinguishes them they are
/// trained as one, with a warning, or rejected with an error. Listed parameters of which the file has only results
/// computed by the exporter are a warning, too, unless something is trained in their place. A tensor that follows from
/// the file's parameters in an unknown way is treated like merged parameters.
///
/// Runs early, because every later pass depends on which values are trained; infer-shapes has run before. Cost: linear
/// in the graph; reads the bytes of one tensor per contradiction and of tensors that look tied.
/// Example: `tests/passes/golden/recover_parameters.rir`.
class RecoverParameters : public Pass {
 public:
  explicit RecoverParameters(StoredFacts known = {}) : known_(std::move(known)) {}
  std::string_view name() const override { return "recover-parameters"; }
  /// It is an error if `kinds` or a pattern matches no stored tensor, if integers are to be trained, or if merged
  /// parameters are refused.
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  Result<void> check_kinds(const ir::Graph& graph) const;
  /// `kept`, plus the computed tensors that match a pattern of `untied`.
  std::set<std::string> stay_computed(std::set<std::string> kept) const;
  /// `gone`: names in the file that no tensor has any more.
  Result<void> check_patterns(const ir::Graph& graph, const std::set<std::string>& gone) const;
  std::map<ValueId, ir::ValueKind> requested_kinds(const ir::Graph& graph, const std::vector<Roles>& roles) const;
  std::vector<ValueId> decide(ir::Graph& graph, const std::vector<Roles>& roles, PassContext& context,
                              Outcome& outcome) const;
  StoredFacts known_;
};

}  // namespace rannc::passes
