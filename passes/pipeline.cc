#include "passes/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "ir/text/text.h"
#include "passes/batch/hoist_uniform.h"
#include "passes/fusions/fuse.h"
#include "passes/loss/attach_loss.h"
#include "passes/loss/open_loss.h"
#include "passes/loss/widen_losses.h"
#include "passes/planning/form_atoms.h"
#include "passes/planning/mark_constants.h"
#include "passes/simplify/cse.h"
#include "passes/simplify/drop_unread.h"
#include "passes/simplify/fold_constants.h"
#include "passes/simplify/infer_shapes.h"
#include "passes/simplify/join_pieces.h"
#include "passes/simplify/merge_slices.h"
#include "passes/simplify/remove_dead.h"
#include "passes/simplify/set_precision.h"
#include "passes/simplify/snap_constants.h"
#include "passes/training/differentiate.h"
#include "passes/training/mixed_precision.h"
#include "passes/training/sync_batch_norm.h"
#include "passes/training/trainify.h"

namespace rannc::passes {

namespace {

using Made = Result<std::unique_ptr<Pass>>;

Diagnostic takes_none(std::string_view options) {
  return error(fmt::format("the pass takes no options, found `{}`", options));
}

template <class P>
Made plain(std::string_view options) {
  if (!options.empty()) return takes_none(options);
  return Made(std::make_unique<P>());
}

template <class P>
Made with_losses(std::string_view options) {
  RANNC_ASSIGN(std::vector<LossSpec> terms, parse_losses(options));
  return Made(std::make_unique<P>(std::move(terms)));
}

Made with_dtype(std::string_view options) {
  const auto dtype = ir::parse_dtype(options);
  if (dtype && ir::is_float(*dtype)) return Made(std::make_unique<SetPrecision>(*dtype));
  return error(fmt::format("`{}` is not a float type; expected f16, bf16, f32 or f64", options));
}

Made with_narrow_dtype(std::string_view options) {
  const auto dtype = ir::parse_dtype(options);
  if (dtype && ir::is_float(*dtype) && ir::sum_dtype(*dtype) != *dtype)
    return Made(std::make_unique<MixedPrecision>(*dtype));
  return error(fmt::format("`{}` is not a 16-bit float type; expected f16 or bf16", options));
}

Made with_lost_gradients(std::string_view options) {
  RANNC_ASSIGN(LostGradients lost, parse_lost_gradients(options));
  return Made(std::make_unique<LoseGradients>(std::move(lost)));
}

Made with_samples_in_file(std::string_view options) {
  if (options.empty()) return Made(std::make_unique<Rebatch>());
  int64_t samples = 0;
  const auto [end, status] = std::from_chars(options.data(), options.data() + options.size(), samples);
  if (status != std::errc() || end != options.data() + options.size() || samples < 1) {
    return error(fmt::format("`{}` is not a number of samples", options));
  }
  return Made(std::make_unique<Rebatch>(BakedBatch{samples, {}}));
}

Made with_training(std::string_view options) {
  RANNC_ASSIGN(TrainingRequest request, parse_training(options));
  return Made(std::make_unique<Trainify>(std::move(request)));
}

/// `constant %fc.weight: f32[1,2] = hex "…"; …`: the tensors of a `state_dict` as statements of text IR.
Made with_weights(std::string_view options) {
  if (options.empty()) return Made(std::make_unique<LoadWeights>());
  std::string text = fmt::format("rannc.graph 1\n{}\ninputs []\noutputs []\n", options);
  std::replace(text.begin(), text.end(), ';', '\n');
  GivenWeights given{.file = "load-weights"};
  RANNC_ASSIGN(const ir::Graph graph, ir::parse_graph(text, given.file));
  for (const ValueId value : graph.values()) {
    const ir::Graph::Value& tensor = graph.value(value);
    given.tensors.emplace(tensor.name, ir::StoredTensor{tensor.type, tensor.data});
  }
  return Made(std::make_unique<LoadWeights>(std::move(given)));
}

struct Row {
  std::string name;
  std::function<Made(std::string_view options)> make;
  bool optional = false;
};

std::vector<Row> all_rows() {
  std::vector<Row> rows = {
      {"drop-unread", plain<DropUnread>},
      {"rebatch", with_samples_in_file, true},
      {"lose-gradients", with_lost_gradients},
      {"open-loss", with_losses<OpenLoss>},
      {"infer-shapes", plain<InferShapes>},
      {"recover-parameters", plain<RecoverParameters>},
      {"trainify", with_training},
      {"set-precision", with_dtype},
      {"load-weights", with_weights},
      {"fold-constants", plain<FoldConstants>, true},
      {"attach-loss", with_losses<AttachLoss>},
      {"widen-losses", plain<WidenLosses>},
      {"cse", plain<Cse>, true},
      {"hoist-uniform", plain<HoistUniform>, true},
      {"join-pieces", plain<JoinPieces>, true},
      {"snap-constants", plain<SnapConstants>, true},
  };
  for (const Fusion& fusion : fusions()) {
    const auto make = [&fusion](std::string_view options) -> Made {
      if (!options.empty()) return takes_none(options);
      return Made(std::make_unique<Fuse>(fusion));
    };
    rows.push_back({pass_name(fusion), make, true});
  }
  const std::vector<Row> last = {
      {"merge-slices", plain<MergeSlices>, true},     {"remove-dead", plain<RemoveDead>, true},
      {"mixed-precision", with_narrow_dtype},         {"sync-batch-norm", plain<SyncBatchNorm>},
      {"mark-constants", plain<MarkConstants>, true}, {"form-atoms", plain<FormAtoms>},
      {"differentiate", plain<Differentiate>},
  };
  rows.insert(rows.end(), last.begin(), last.end());
  return rows;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = all_rows();
  return kRows;
}

}  // namespace

PassManager standard_pipeline(const PipelineOptions& options) {
  PassManager manager;
  const auto add = [&](std::unique_ptr<Pass> pass) {
    if (!options.excluded.contains(std::string(pass->name()))) manager.add(std::move(pass));
  };
  add(std::make_unique<DropUnread>());
  if (options.baked) add(std::make_unique<Rebatch>(*options.baked));
  if (!options.lost.empty()) add(std::make_unique<LoseGradients>(options.lost));
  if (!options.losses.empty()) add(std::make_unique<OpenLoss>(options.losses, options.stored.file, options.judge_loss));
  add(std::make_unique<InferShapes>(ConstantIndices::kUnchecked));
  add(std::make_unique<RecoverParameters>(options.stored));
  if (options.training.any() || !options.losses.empty()) {
    add(std::make_unique<Trainify>(options.training, options.trained_file));
  }
  if (options.precision) add(std::make_unique<SetPrecision>(*options.precision));
  if (options.weights) add(std::make_unique<LoadWeights>(options.weights));
  add(std::make_unique<FoldConstants>());
  add(std::make_unique<InferShapes>());
  if (!options.losses.empty()) add(std::make_unique<AttachLoss>(options.losses));
  if (!options.losses.empty()) add(std::make_unique<WidenLosses>());
  add(std::make_unique<Cse>());
  add(std::make_unique<HoistUniform>());
  add(std::make_unique<JoinPieces>());
  add(std::make_unique<SnapConstants>());
  for (const Fusion& fusion : fusions()) add(std::make_unique<Fuse>(fusion));
  add(std::make_unique<Cse>());
  add(std::make_unique<MergeSlices>());
  add(std::make_unique<RemoveDead>());
  if (options.mixed) add(std::make_unique<MixedPrecision>(*options.mixed));
  if (options.sync_batch_norm) add(std::make_unique<SyncBatchNorm>());
  add(std::make_unique<MarkConstants>());
  add(std::make_unique<FormAtoms>());
  return manager;
}

PassManager stored_values_pipeline(const PipelineOptions& options) {
  PassManager manager;
  manager.add(std::make_unique<RecoverParameters>(options.stored));
  if (options.weights) manager.add(std::make_unique<LoadWeights>(options.weights));
  return manager;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.push_back(row.name);
  return names;
}

std::vector<std::string> optional_passes() {
  std::vector<std::string> names;
  for (const Row& row : rows()) {
    if (row.optional) names.push_back(row.name);
  }
  return names;
}

Result<std::unique_ptr<Pass>> make_pass(std::string_view spelling) {
  const size_t brace = spelling.find('{');
  const bool braced = brace != std::string_view::npos;
  if (braced && spelling.back() != '}') return error(fmt::format("`{}` lacks a closing brace", spelling));
  const std::string_view name = spelling.substr(0, brace);
  const std::string_view options = braced ? spelling.substr(brace + 1, spelling.size() - brace - 2) : "";
  std::string known;
  for (const Row& row : rows()) {
    if (row.name == name) return row.make(options);
    known += " " + std::string(row.name);
  }
  return error(fmt::format("there is no pass `{}`; there are{}", name, known));
}

Result<PassManager> make_passes(std::string_view spellings) {
  PassManager manager;
  while (true) {
    size_t end = 0;
    for (int depth = 0; end < spellings.size() && (depth > 0 || spellings[end] != ','); ++end) {
      if (spellings[end] == '{') ++depth;
      if (spellings[end] == '}') --depth;
    }
    RANNC_ASSIGN(std::unique_ptr<Pass> pass, make_pass(spellings.substr(0, end)));
    manager.add(std::move(pass));
    if (end == spellings.size()) return manager;
    spellings.remove_prefix(end + 1);
  }
}

}  // namespace rannc::passes
