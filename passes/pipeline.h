/// Defines the order of the passes.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "ir/graph/type.h"
#include "passes/batch/rebatch.h"
#include "passes/loss/loss_spec.h"
#include "passes/loss/open_loss.h"
#include "passes/manager.h"
#include "passes/parameters/load_weights.h"
#include "passes/parameters/recover_parameters.h"
#include "passes/training/lost_gradients.h"
#include "passes/training/trainify.h"

namespace rannc::passes {

struct PipelineOptions {
  std::vector<LossSpec> losses;         ///< empty: for inference
  std::optional<ir::DType> precision;   ///< one float type for the whole model; nullopt: as in the file
  std::optional<ir::DType> mixed;       ///< 16-bit type of products; nullopt: one type for all
  StoredFacts stored;                   ///< facts about stored tensors, from the user and the file
  std::optional<GivenWeights> weights;  ///< replace the numbers in the file; nullopt: keep those
  LostGradients lost;                   ///< gradient stops that the file lost, from the user
  TrainingRequest training;         ///< training behaviour that an export for inference lost and the user wants back
  ir::TrainingNotes trained_file;   ///< notes of the file on that behaviour
  std::optional<BakedBatch> baked;  ///< makes a static batch size symbolic; nullopt: it stays
  OpenLoss::Judge judge_loss;       ///< of losses in the model; empty: none
  bool sync_batch_norm = false;     ///< batch normalization uses the samples of all replicas
  std::set<std::string> excluded;   ///< passes to skip; each is one of `optional_passes`
};

/// From an imported graph to atoms:
///   drop-unread         first, because other passes reject a model for any of its tasks
///   rebatch             before passes that depend on the batch axis
///   lose-gradients      before passes that depend on what is trained
///   open-loss           before type inference, because a mean over samples has no type
///   infer-shapes        every later pass reads types
///   recover-parameters  before constants are folded: a weight is not a constant
///   trainify            after merged statistics are separated and roles are known; before the last type inference
///   set-precision       before constants are folded, so that folding uses the target's precision
///   load-weights        before any pass reads numbers of constants
///   fold-constants      removes shape arithmetic, so that sizes cross no cut
///   infer-shapes        infers types that folding made known, and checks constant indices
///   attach-loss         on final types
///   widen-losses        after set-precision and attach-loss
///   cse                 before fusions, which expect one value where a file may compute it twice
///   hoist-uniform       after cse, so that one mask is made; before fusions, which expect constant masks
///   join-pieces         on what frontends reorder; before fusions, which may expect whole tensors
///   snap-constants      before fusions, which require numbers as exact as the graph's element type
///   fuse-…              after the last pass that refers to a value by its name; in the order of `fusions`
///   cse                 merges what fusions make anew for each place
///   merge-slices        on slices that fusions make, after equal ones are merged
///   remove-dead         after the last pass that orphans tasks
///   mixed-precision     after fusions, whose patterns contain no casts
///   sync-batch-norm     after remove-dead: only tasks that run count
///   mark-constants, form-atoms
PassManager standard_pipeline(const PipelineOptions& options);
/// Pipeline for an imported graph of which only the stored values are needed: their names, and the numbers of
/// `weights`. It keeps the frontend's types, which do not describe how samples mix, because a model may compute its
/// loss.
PassManager stored_values_pipeline(const PipelineOptions& options);

/// Returns the names of all passes, in pipeline order.
std::vector<std::string> pass_names();
/// Returns the standard passes that can be skipped without changing the numbers of a training step.
std::vector<std::string> optional_passes();

/// Creates a pass from its spelling: `form-atoms`, `set-precision{f64}`, `attach-loss{mse(output=y)}`. The error for an
/// unknown name lists all names.
Result<std::unique_ptr<Pass>> make_pass(std::string_view spelling);
/// Creates a manager from spellings that are separated by commas outside braces.
Result<PassManager> make_passes(std::string_view spellings);

}  // namespace rannc::passes
