#include "tools/compiler/requested_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "frontend/symbols.h"
#include "ir/dim/affine.h"
#include "tools/common/option_ranges.h"

namespace rannc::tools {

namespace {

using compiler::MixedPrecision;
using compiler::Precision;
using compiler::ReadOptions;
using compiler::StoredKind;

Result<passes::TrainingRequest> training_request(const compiler::LostTraining& lost) {
  passes::TrainingRequest request;
  request.batch_norm = lost.every_batch_norm;
  request.batch_norms.insert(lost.batch_norms.begin(), lost.batch_norms.end());
  request.momentum = lost.batch_norm_momentum;
  request.dropout = lost.dropout;
  request.lost_dropout = lost.lost_dropout;
  if (const auto fault = passes::fault_of(request)) return error(*fault);
  return request;
}

ir::ValueKind kind_of(StoredKind kind) {
  switch (kind) {
    case StoredKind::kParameter:
      return ir::ValueKind::kParameter;
    case StoredKind::kBuffer:
      return ir::ValueKind::kBuffer;
    case StoredKind::kConstant:
      return ir::ValueKind::kConstant;
  }
  RANNC_CHECK(false) << "a kind without a counterpart";
  return {};
}

passes::StoredFacts stored_facts(const ReadOptions& options) {
  passes::StoredFacts stored;
  for (const auto& [patterns, kind] :
       {std::pair(&options.frozen, ir::ValueKind::kBuffer), std::pair(&options.buffers, ir::ValueKind::kBuffer),
        std::pair(&options.trained, ir::ValueKind::kParameter)}) {
    for (const std::string& pattern : *patterns) stored.patterns.push_back({pattern, kind});
  }
  stored.tied = options.tied;
  stored.untied = options.untied;
  const bool trains = !options.loss.empty() || options.loss_graph;
  using Merged = passes::StoredFacts::Merged;
  stored.merged = trains && !options.merged_allowed ? Merged::kRefused : Merged::kAllowed;
  for (const auto& [name, kind] : options.kinds) stored.kinds[name] = kind_of(kind);
  return stored;
}

Result<passes::PipelineOptions> requested_passes(const ReadOptions& options) {
  passes::PipelineOptions pipeline;
  if (!options.loss.empty()) {
    RANNC_ASSIGN(pipeline.losses, passes::parse_losses(options.loss));
  }
  if (options.precision == Precision::kFloat32) pipeline.precision = ir::DType::kF32;
  if (options.precision == Precision::kFloat64) pipeline.precision = ir::DType::kF64;
  if (options.mixed_precision == MixedPrecision::kBFloat16) pipeline.mixed = ir::DType::kBF16;
  if (options.mixed_precision == MixedPrecision::kFloat16) pipeline.mixed = ir::DType::kF16;
  pipeline.lost.padding = {options.padding_rows.begin(), options.padding_rows.end()};
  pipeline.lost.stopped.insert(options.stopped_gradients.begin(), options.stopped_gradients.end());
  pipeline.lost.strict.insert(options.strict_bounds.begin(), options.strict_bounds.end());
  RANNC_ASSIGN(pipeline.training, training_request(options.lost_training));
  pipeline.sync_batch_norm = options.sync_batch_norm;
  pipeline.excluded.insert(options.skipped_passes.begin(), options.skipped_passes.end());
  pipeline.stored = stored_facts(options);
  return pipeline;
}

/// Parses the value of `--size`: a positive number or an affine expression in one symbol.
Result<ir::Dim> fixed_size(const std::string& symbol, const std::string& text) {
  const auto parsed = ir::Dim::parse(text);
  const auto form = parsed.ok() ? ir::affine(*parsed) : std::nullopt;
  const bool number = parsed.ok() && parsed->is_constant() && parsed->constant() >= 1;
  if (number || (form && form->scale + form->offset >= 1)) return *parsed;
  return error(fmt::format("--size {}={}: expected a positive integer, or one in terms of a new name, such as 32*k",
                           symbol, text));
}

Result<frontend::ImportOptions> import_options(const ReadOptions& options) {
  frontend::ImportOptions import;
  for (const auto& [symbol, text] : options.sizes) {
    RANNC_ASSIGN(import.sizes[symbol], fixed_size(symbol, text));
  }
  if (!options.batch_symbol.empty()) import.batch_symbol = options.batch_symbol;
  for (const auto& [a, b] : options.same_symbols) frontend::unite_symbols(import.same_symbol, a, b);
  import.missing_weights = options.without_weights;
  import.inputs = options.inputs;
  import.outputs = options.output_names;
  import.max_trips = options.max_trips;
  import.input_values = options.input_values;
  return import;
}

}  // namespace

std::string wrong_to_skip(const std::string& pass) {
  const auto all = passes::pass_names(), optional = passes::optional_passes();
  if (std::find(optional.begin(), optional.end(), pass) != optional.end()) return "";
  const bool known = std::find(all.begin(), all.end(), pass) != all.end();
  return fmt::format("{} {}; the optional passes are {}", pass, known ? "cannot be skipped" : "is not a pass",
                     fmt::join(optional, ", "));
}

Result<void> check(const ReadOptions& options) {
  RANNC_TRY(check_ranges(options));
  for (const std::string& pass : options.skipped_passes) {
    if (const std::string wrong = wrong_to_skip(pass); !wrong.empty()) return error("--skip-pass: " + wrong);
  }
  for (const auto& [symbol, size] : options.assumed_sizes) {
    if (size < 1) return error(fmt::format("--assume {}={}: expected a positive integer", symbol, size));
    const auto fixed = options.sizes.find(symbol);
    if (fixed == options.sizes.end()) continue;
    return error(fmt::format("--assume {}={}: --size {}={} fixes it", symbol, size, symbol, fixed->second));
  }
  for (const auto& [name, value] : options.input_values) {
    if (!std::isfinite(value)) return error(fmt::format("--input-value {}={}: expected a number", name, value));
  }
  if (options.mini_batch.value_or(1) < 1) return error("--mini-batch: must be positive");
  if (options.partial_weights && options.weights.empty()) return error("--partial-weights needs --weights");
  if (options.loss_graph && options.loss_graph->file.empty()) return error("--loss-graph: the file is missing");
  return {};
}

Result<RequestedModel> requested_model(const frontend::ModelSource& source, const ReadOptions& options) {
  RANNC_TRY(check(options));
  RequestedModel model{source.path.string(), source, options, {}, {}, {}};
  RANNC_ASSIGN(model.import, import_options(options));
  RANNC_ASSIGN(model.pipeline, requested_passes(options));
  model.manager.print_after = options.print_after;
  model.manager.print_changed = options.print_changed;
  model.manager.reproducer = !options.reproducer.empty();
  return model;
}

}  // namespace rannc::tools
