/// The programs of a pipeline stage: forward, recompute and backward functions, cut from its joint graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/gradient/joint.h"
#include "ir/plan/plan.h"

namespace rannc::ir {

/// A stage's forward and backward pass, and the values that it keeps between them under recompute.
struct StageFunctions {
  /// Of the stage's graph (`ir/plan/stage_graph.h`). Of a plan for inference: its forward pass alone.
  Joint joint;
  /// Values of the joint graph that a forward pass keeps if an `R` follows, ascending. All other values that the
  /// backward pass reads are computed again. Nothing: the stage has no `R`.
  std::optional<std::vector<ValueId>> kept;
};

bool equal(const StageFunctions& a, const StageFunctions& b);

/// The same stage with another list of kept values, or without an R.
std::shared_ptr<const StageFunctions> with_kept(const StageFunctions& stage, std::optional<std::vector<ValueId>> kept);

/// Kinds of functions. Each task that differentiation adds or copies belongs to one of P, F, I, W and E. R repeats
/// tasks of F. B is I and W in one, in the order of a tape.
enum class FunctionKind : uint8_t {
  kLoad,      ///< P, once per load
  kStep,      ///< P, once per step, before the first micro-batch
  kForward,   ///< F
  kRebuild,   ///< R: saved values from kept ones
  kInput,     ///< I: gradients of the stage's inputs, and of parameters by the kernels of activations' gradients
  kWeight,    ///< W: all other gradients of parameters
  kBackward,  ///< B
  kStepEnd,   ///< E: gradients of once-per-step tasks, from sums over the micro-batches
};
inline constexpr size_t kFunctionKinds = 8;
/// `P`, `P`, `F`, `R`, `I`, `W`, `B`, `E`.
std::string_view letter(FunctionKind kind);

/// One function: tasks in order, and the values that enter and leave it. Parameters, buffers, constants and the results
/// of P are available to all functions and not listed.
struct StageFunction {
  std::vector<TaskId> tasks;       ///< ascending
  std::vector<ValueId> arguments;  ///< ascending: inputs, seeds, random inputs, saved, pending or kept values
  std::vector<ValueId> results;    ///< F: outputs and batch statistics; I, B: gradients of the stage's inputs
  std::vector<ValueId> added;      ///< parts of parameter gradients and operands of `core.total` that are summed up
  std::vector<ValueId> kept;       ///< F: saved; R: rebuilt; I: saved for W and pending; else empty. Ascending
  /// All values that leave it: results, kept, added.
  std::vector<ValueId> leaving() const;
  bool operator==(const StageFunction&) const = default;
};

/// All functions of a stage, derived from its joint graph.
struct FunctionTable {
  std::vector<FunctionKind> place;  ///< by task: P, F, I, W or E
  StageFunction functions[kFunctionKinds];
  std::vector<ValueId> saved;      ///< from F or R to B, or to I and W; ascending
  std::vector<ValueId> rebuilt;    ///< saved values that R computes
  std::vector<ValueId> recompute;  ///< what F keeps for an R
  std::vector<ValueId> pending;    ///< from I to W: made by I, or seeds

  const StageFunction& operator[](FunctionKind kind) const { return functions[static_cast<size_t>(kind)]; }
  StageFunction& operator[](FunctionKind kind) { return functions[static_cast<size_t>(kind)]; }
  bool operator==(const FunctionTable&) const = default;
};

/// The function of each task of a joint graph, by frequency and phase: P, F, I, W or E. Once-per-step tasks that depend
/// on a completed sum belong to E, all others to P.
std::vector<FunctionKind> function_places(const Joint& joint);

/// Derives the functions of a stage. Linear in its joint graph.
FunctionTable function_table(const StageFunctions& stage);
/// The same of a joint graph, if F keeps these values for an R.
FunctionTable function_table(const Joint& joint, const std::vector<ValueId>& kept);

/// What F keeps if R recomputes the whole stage: the inputs that its saved values depend on.
std::vector<ValueId> kept_by_whole_recompute(const Joint& joint);
/// Whether the stage has an R that recomputes only part of it.
bool recomputes_selectively(const StageFunctions& stage);

/// The functions of a stage as text, one line each: arguments, results, kept and summed values with their bytes, and
/// tasks. `index` is the stage's number.
std::string print_functions(const StageFunctions& stage, size_t index);

/// All faults of a stage's functions, each with a rule label H1…. verify_functions.cc lists the rules.
std::vector<Diagnostic> verify(const StageFunctions& stage, const FunctionTable& table);

}  // namespace rannc::ir
