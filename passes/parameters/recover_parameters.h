/// recover-parameters: says which stored tensors are trained.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/state/stored_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

struct Roles;

/// A kind for all stored tensors of floats whose name, or one of whose names in the program's state, is like a pattern
/// (`*` and `?` stand for other letters; patterns are separated by commas). A pattern for many that asks for parameters
/// leaves running statistics what they are, and numbers of the model's code that stand in no weight's place.
struct KindPattern {
  std::string pattern;
  ir::ValueKind kind;
};

/// What is known of stored tensors before their uses are looked at. By value name.
struct StoredFacts {
  std::map<std::string, ir::ValueKind> kinds = {};  ///< what a user knows better
  ir::StoredNotes file = {};
  /// By tensor that the exporter computed ahead of a run, what it recorded of its making: the names of stored tensors,
  /// and of the values between.
  std::map<std::string, std::vector<std::string>> made_of = {};
  std::vector<KindPattern> patterns = {};  ///< of frozen and trained parts; the last that fits counts; over `kinds`
  std::vector<std::string> tied = {};      ///< patterns of what is one parameter where values are equal
  std::vector<std::string> untied = {};    ///< patterns of parameters of which each module has its own
  enum class Merged : uint8_t {
    kAllowed,                   ///< trained as one, with a warning
    kRefused,                   ///< an error
  } merged = Merged::kAllowed;  ///< parameters that the exporter made one and that nothing tells apart
};

/// What has become of tensors that an exporter computed from parameters, after the pass: names in the file.
struct FoldedTensors {
  std::set<std::string> stand_ins;   ///< trained in the stead of parameters that the file does not have
  std::set<std::string> recomputed;  ///< made by tasks now
};
FoldedTensors folded_tensors(const ir::Graph& graph, const StoredFacts& known);

/// Where a file lists what its program has for parameters, they are those that are used, also those of one element. A
/// tensor that is not listed was computed by the exporter: of a parameter that the file has, it is computed again
/// (`internal/recomputed_tensors.h`), of one that it has not, it is trained in its stead, with a warning, and of none
/// it is a constant. Where the file does not record it, no listed parameter may be missing for that. Other files mark
/// none: a float tensor is one because of where it is used. A name is evidence for a single number alone, which stands
/// in the same places whether it is learned or not.
///
/// Before => after: `constant` values of float type become `parameter` or `buffer`; `remarks` say which uses
/// contradict each other, `open` which tensors may be ties. Stored tensors that exporters merged come apart under their
/// own names (`internal/merged_tensors.h`), biases of zeros come back (`internal/dropped_biases.h`), copies of one
/// parameter become one (`internal/tied_parameters.h`): so the graph trains what the program has. `state` of the graph
/// says where the tensors of `state_dict` are; a stored tensor of which it says nothing is one, under its own name.
/// Frozen parts are buffers that nothing updates: no gradient is computed for them.
///
/// - Parameters: weights and biases of linear and conv, scales and biases of normalisations, embedding tables (data of
///   gather), constant operands of matmul; added or multiplied vectors (one extent other than 1); added tables of more
///   extents, unless they are added to attention scores; concatenated tokens; what tuples of indices pick from; what an
///   exponential, softplus, sigmoid or tanh is taken of, as of rates of decay. Uses are followed through tasks that
///   depend on no input, so a permuted, cast, expanded or normalised weight counts.
/// - Buffers: running statistics of batch_norm, which the graph then says how to update (`ir::Statistics`).
/// - Single numbers that multiply, or are added to, values or weights are parameters where the program lists them; in
///   files without such a list where their name is a path of modules (`block.0.scale`), or where an exponential or the
///   like is taken of a number that has a name of its own (`logit_scale`).
/// - Constants: literals, wherever they stand; and the rest: other single numbers outside of a weight's place, masks
/// (elements of -10,000 or less), rotary
///   tables, attention biases, whatever only feeds sizes or conditions.
///
/// A parameter that several modules read is a tie that the model's author made, unless it is one number repeated or
/// copied layers have it: then the exporter merged several, and where nothing tells them apart that is a warning, or an
/// error, for they are trained as one.
/// Listed parameters of which the file has only what an exporter computed of them are `open` too, where nothing is
/// trained in their stead. What follows from parameters of the file in an unknown way is refused like merged ones.
///
/// It stands first: infer-shapes has run in the frontend, and every later pass asks which values are trained.
/// Cost: linear in the graph; of stored bytes it reads one tensor per contradiction and those that look tied.
class RecoverParameters : public Pass {
 public:
  explicit RecoverParameters(StoredFacts known = {}) : known_(std::move(known)) {}
  std::string_view name() const override { return "recover-parameters"; }
  /// An error where `kinds` names, or a pattern is like, no stored tensor, where integers are to be trained, or where
  /// merged parameters are refused.
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  Result<void> check_kinds(const ir::Graph& graph) const;
  /// `kept`, and the computed tensors that a pattern of `untied` names.
  std::set<std::string> stay_computed(std::set<std::string> kept) const;
  /// `gone`: names that were in the file, and are of no tensor any more.
  Result<void> check_patterns(const ir::Graph& graph, const std::set<std::string>& gone) const;
  std::map<ValueId, ir::ValueKind> asked(const ir::Graph& graph, const std::vector<Roles>& roles) const;
  std::vector<ValueId> decide(ir::Graph& graph, const std::vector<Roles>& roles, PassContext& context,
                              Outcome& outcome) const;
  StoredFacts known_;
};

}  // namespace rannc::passes
