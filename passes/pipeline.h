/// The one place that orders passes.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "ir/graph/type.h"
#include "passes/batch/rebatch.h"
#include "passes/loss/loss_spec.h"
#include "passes/manager.h"
#include "passes/parameters/load_weights.h"
#include "passes/parameters/recover_parameters.h"
#include "passes/training/lost_gradients.h"
#include "passes/training/trainify.h"

namespace rannc::passes {

struct PipelineOptions {
  std::vector<LossSpec> losses;         ///< none: for inference
  std::optional<ir::DType> precision;   ///< one float type for the whole model; nothing: as the file has it
  StoredFacts stored;                   ///< what user and file say of stored tensors
  std::optional<GivenWeights> weights;  ///< instead of the numbers in the file; nothing: these
  LostGradients lost;                   ///< what the user says of gradients that the file lost
  TrainingRequest training;             ///< what an export for inference lost and the user wants back
  ir::TrainingNotes trained_file;       ///< what the file says of it
  std::optional<BakedBatch> baked;      ///< a number of samples in the file becomes any; nothing: it stays
  bool sync_batch_norm = false;         ///< batch normalisations take in the samples of all replicas
  std::set<std::string> left_out;       ///< passes that do not run; each is one of `optional_passes`
};

/// From an imported graph to atoms:
///   drop-unread         before anything judges tasks
///   rebatch             before anything asks where the samples are
///   lose-gradients      before anything asks what is trained
///   open-loss           before types, since a mean over samples has none
///   infer-shapes        every later pass reads types
///   recover-parameters  before constants are folded: a weight is no constant
///   trainify            where merged statistics are apart and roles known; before the last types
///   set-precision       before constants are folded, in the target's precision
///   load-weights        before anything reads numbers of constants
///   fold-constants      shape arithmetic goes, so that sizes cross no cut
///   infer-shapes        what folding has made known
///   attach-loss         on final types
///   cse                 before fusions, which ask for one value where a file may compute it twice
///   hoist-uniform       behind cse, so that one mask is made; before fusions, which want masks that are constants
///   join-pieces         on what frontends reorder, before fusions, which may want whole tensors
///   snap-constants      before fusions, which ask for numbers as exact as the graph's element type
///   fuse-…              after the last pass that speaks of a value by its name; in the order of `fusions`
///   cse                 what fusions make for each place anew
///   merge-slices        on slices that fusions make, equal ones being one
///   remove-dead         after the last pass that orphans tasks
///   sync-batch-norm     after remove-dead: it speaks of what runs
///   mark-constants, form-atoms
PassManager standard_pipeline(const PipelineOptions& options);
/// Of an imported graph whose stored values alone are wanted: names, and numbers of `weights`. Its types are the
/// frontend's, which says nothing of how samples mix: a model may compute its loss.
PassManager stored_values_pipeline(const PipelineOptions& options);

/// Names of all passes, in the order of the pipeline.
std::vector<std::string> pass_names();
/// Those of the standard pipeline without which the numbers of a training step stay what they are.
std::vector<std::string> optional_passes();

/// A pass by its spelling: `form-atoms`, `set-precision{f64}`, `attach-loss{mse(output=y)}`. An error lists the names.
Result<std::unique_ptr<Pass>> make_pass(std::string_view spelling);
/// A manager of passes separated by commas outside braces.
Result<PassManager> make_passes(std::string_view spellings);

}  // namespace rannc::passes
