/// Makes the static batch size of a model symbolic.
#pragma once

#include <functional>
#include <optional>

#include "ir/state/stored_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Facts about a file without a batch symbol.
struct BakedBatch {
  /// Static batch size. Each input has its samples on the first of its two leading axes with this extent. If nullopt,
  /// the first extent of all inputs is the batch size.
  std::optional<int64_t> samples = {};
  ir::StoredNotes file = {};
  /// Called last, with the original and the rewritten graph. Returns an error if they are not the same function. Passes
  /// do not run graphs, but their caller may. Null: no check.
  std::function<Result<void>(const ir::Graph& file, const ir::Graph& made, int64_t samples, PassContext&)> judge = {};
};

/// Exports without dynamic axes have their number of samples N in shapes, constants and index tables. The pass replaces
/// it by a symbol.
///
/// Before => after: inputs of [N, …] become [batch, …]; from there the type rules of the operators (`ir::BatchLayout`)
/// track the batch axis. A number changes only where a rule requires it: `reshape` and `expand` to shapes that contain
/// N, slices of all N samples, and tables.
///
/// Values that depend on no input but need samples according to a rule are rebuilt with them, such as a mask of [N, 1,
/// T, T], states of [layers, N, H], or a class token expanded to N. Such a value must be equal for all samples or count
/// them (row i is row 0 + i * c). If N is 1, the shape does not show where the batch axis is. Samples then get the
/// first axis of their own that fits. If a later task rejects this choice, the alternatives that its operands depend on
/// are tried. Indices that select one sample's rows among those of all samples grow by a constant from sample to
/// sample. Random numbers of one sample become separate numbers for each sample wherever a rule permits it: dropout
/// masks shared by all samples would be another model.
///
/// Correctness: for N samples each new task gives the result of the old one, and the type rules prove that each sample
/// of the result is computed from that sample alone, in the same way. Only one function has both properties.
///
/// Runs first, because later passes depend on the batch axis. A graph with a batch symbol, or whose inputs have no
/// common first extent, is left unchanged. It is an error if a task rejects a variable number of samples or if the
/// judge rejects the result; the model then keeps its static batch size N. Linear in the graph for each alternative
/// tried; there are at most kMostAlternatives, fewer for large graphs. Reads tables with extents divisible by N. Never
/// changes a number that no rule requires to change.
/// Example: `tests/passes/golden/rebatch.rir`.
class Rebatch : public Pass {
 public:
  static constexpr int kMostAlternatives = 128;
  static constexpr int64_t kMostTasks = 20'000'000;  ///< built in all alternatives together
  explicit Rebatch(BakedBatch baked = {}) : baked_(std::move(baked)) {}
  std::string_view name() const override { return "rebatch"; }
  std::string spelling() const override;
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  BakedBatch baked_;
};

}  // namespace rannc::passes
