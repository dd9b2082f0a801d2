/// recover-parameters: says which stored tensors are trained.
#pragma once

#include <map>
#include <string>

#include "ir/stored_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

struct Roles;

/// What is known of stored tensors before their uses are looked at. All by value name.
struct StoredFacts {
  std::map<std::string, ir::ValueKind> kinds = {};  ///< what a user knows better
  ir::StoredNotes file = {};
};

/// Where a file lists what its program has for parameters, they are those that are used. Other files mark none: a float
/// tensor is one because of where it is used. A name is evidence for a single number alone, which stands in the same
/// places whether it is learned or not.
///
/// Before => after: `constant` values of float type become `parameter` or `buffer`; `remarks` say which uses
/// contradict each other, `open` which tensors may be ties. Legacy exports merge tensors of equal values, as the zero
/// biases of a fresh model are, and leave an identity from the kept to each lost name: `lost = identity(kept)` becomes
/// a stored tensor `lost` of its own, unless both names are generated (`onnx::…`): then it is one parameter used twice.
/// No other task is touched.
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
/// A tie is one tensor with several uses; or two parameters with equal or transposed-equal contents that are not one
/// number repeated: reported, not merged. A parameter that several modules read is a tie too, or several parameters of
/// equal initial values that the exporter made one of: then it is a warning, for they are trained as one.
/// Listed parameters of which the file has only what an exporter computed of them are `open` too.
///
/// It stands first: infer-shapes has run in the frontend, and every later pass asks which values are trained.
/// Cost: linear in the graph; of stored bytes it reads one tensor per contradiction and those that look tied.
class RecoverParameters : public Pass {
 public:
  explicit RecoverParameters(StoredFacts known = {}) : known_(std::move(known)) {}
  std::string_view name() const override { return "recover-parameters"; }
  /// An error where `kinds` names no stored tensor, or asks to train integers.
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  Result<void> check_kinds(const ir::Graph& graph) const;
  std::vector<ValueId> decide(ir::Graph& graph, const std::vector<Roles>& roles, PassContext& context,
                              Outcome& outcome) const;
  StoredFacts known_;
};

}  // namespace rannc::passes
