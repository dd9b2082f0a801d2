/// rebatch: a model whose file was made for one number of samples takes any.
#pragma once

#include <functional>
#include <optional>

#include "ir/state/stored_notes.h"
#include "passes/pass.h"

namespace rannc::passes {

/// What is known of a file without a batch symbol.
struct BakedBatch {
  /// For which it was made: each input has them on the first of its two leading axes that is as long. Nothing: all have
  /// them on the first, and it says how many.
  std::optional<int64_t> samples = {};
  ir::StoredNotes file = {};
  /// Asked last: why the graph that was made, a symbol in place of so many samples, is not the function that the file's
  /// is, if it is not. Passes run nothing; who calls them may. Empty: nobody is asked.
  std::function<Result<void>(const ir::Graph& file, const ir::Graph& made, int64_t samples, PassContext&)> judge = {};
};

/// Exports without dynamic axes have their number of samples N in shapes, constants and tables of indices. The pass
/// makes it a symbol.
///
/// Before => after: inputs of [N, …] become [batch, …]; where the samples lie is followed from there by the type rules
/// of the operators (`ir::BatchLayout`). A number changes only where a rule demands it: `reshape` and `expand` to
/// shapes that hold N, slices of all N samples, and tables. A value that no input reaches, but that a rule wants with
/// samples (a mask of [N, 1, T, T], states of [layers, N, H], a class token stretched to N), is made anew with them: it
/// must be alike for all samples, or count them (row i is row 0 + i * c). With N of 1, nothing
/// tells where it lies in a shape. Samples then take an axis of their own where one fits, the first of those that do,
/// and other alternatives are tried where a task further on refuses: only those that its operands rest on. Indices
/// that look up one sample's rows among those of all grow by as many from each sample to the next. Random
/// numbers of one sample become those of each, wherever a rule takes them so: shared by all, the masks of a dropout
/// would be another model's.
///
/// Why that is right: each new task gives for N samples what the old one gave, and the type rules know that the result
/// computes each sample from itself alone, by the same numbers. There is but one such function.
///
/// Stands first: later passes ask which axis the samples have. A graph with a batch symbol, and one whose inputs have
/// no common first extent, is left alone. An error at the first task that cannot take another number of samples, or
/// what the judge says: the model then trains whole, N at a time. Linear in the graph for each alternative that is
/// tried, of which there are at most kMostAlternatives, fewer of large graphs; reads tables whose extents N divides.
/// Never changes a number that no rule asks for.
class Rebatch : public Pass {
 public:
  static constexpr int kMostAlternatives = 128;
  static constexpr int64_t kMostTasks = 20'000'000;  ///< that are built in all alternatives together
  explicit Rebatch(BakedBatch baked = {}) : baked_(std::move(baked)) {}
  std::string_view name() const override { return "rebatch"; }
  std::string spelling() const override;
  Result<Outcome> run(ir::Graph& graph, PassContext& context) const override;

 private:
  BakedBatch baked_;
};

}  // namespace rannc::passes
