#include "tools/compiler/model_files.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/text/form.h"
#include "partition/text_digest.h"
#include "passes/loss/join_loss.h"
#include "runtime/bundle/state_dict.h"

namespace rannc::tools {

namespace {

/// Returns the names of outputs that the losses may read. Empty if all outputs are required: there is no loss, or a
/// loss names no output.
std::vector<std::string> outputs_of_losses(const RequestedModel& request, const ModelFiles& files) {
  std::vector<std::string> names;
  for (const passes::LossSpec& loss : request.pipeline.losses) {
    if (loss.output.empty()) return {};
    names.push_back(loss.output);
  }
  if (!files.loss) return names;
  if (!files.loss->ok()) return {};  // the error is reported where the loss joins the model
  const auto loss = (*files.loss)->import({});
  if (!loss.ok()) return {};  // likewise
  for (const ValueId input : loss->graph.inputs()) names.emplace_back(loss->graph.value(input).name);
  for (const auto& [input, output] : request.options.loss_graph->inputs) names.push_back(output);
  return names;
}

}  // namespace

Result<ModelFiles> parse_files(const RequestedModel& request) {
  const compiler::ReadOptions& options = request.options;
  ModelFiles files;
  files.pipeline = request.pipeline;
  if (!options.weights.empty()) {
    RANNC_ASSIGN(const auto weights, runtime::SafetensorsFile::open(options.weights));
    files.pipeline.weights = passes::GivenWeights{options.weights, runtime::tensors_by_name(weights),
                                                  options.partial_weights, request.pipeline.precision.has_value()};
  }
  RANNC_ASSIGN(files.model, frontend::parse_model(request.source, request.import));
  if (options.loss_graph) files.loss = frontend::parse_model(options.loss_graph->file);
  files.required = outputs_of_losses(request, files);
  return files;
}

Result<ir::Graph> import_model(const RequestedModel& request, const ModelFiles& files, const Batching& batching,
                               passes::PipelineOptions& pipeline, PreparedModel& model) {
  frontend::ImportOptions import = request.import;
  import.batching = batching;
  import.required = files.required;
  RANNC_ASSIGN(frontend::Imported imported, files.model.import(import));
  model.read.nodes = imported.notes.nodes;
  pipeline.stored.file = std::move(imported.notes.stored);
  pipeline.trained_file = std::move(imported.notes.training);
  model.remarks = std::move(imported.notes.remarks);
  model.open = std::move(imported.notes.open);
  for (const auto& [text, nodes] : imported.notes.counted_remarks) {
    model.remarks.push_back({{request.path, 0, 0, {}}, fmt::format("{} {}", nodes, text)});
  }
  for (const auto& [text, nodes] : imported.notes.counted_warnings) {
    model.warnings.push_back(fmt::format("{} {}", nodes, text));
  }
  for (const Note& warning : imported.notes.warnings) {
    const std::string& node = warning.where.node;
    model.warnings.push_back(node.empty() ? warning.message : fmt::format("{} (node '{}')", warning.message, node));
  }
  return std::move(imported.graph);
}

namespace {

/// Names and digests of the floats that are neither trained nor buffers. Empty if a pass refuses the tensors, or if
/// they are absent.
std::string constants_text(ir::Graph graph, passes::PipelineOptions pipeline) {
  pipeline.weights.reset();
  passes::PassContext context;
  if (!passes::stored_values_pipeline(pipeline).run(graph, context, {.reproducer = false}).ok()) return {};
  const std::vector<bool> results = ir::results_of(graph);
  std::string text;
  for (const ValueId id : graph.values()) {
    const ir::Graph::Value value = graph.value(id);
    if (!graph.has_uses(id) && !results[id.index()]) continue;
    if (value.kind != ir::ValueKind::kConstant || !ir::is_float(value.type.dtype) || !value.data.present()) continue;
    const auto bytes = value.data.read();
    if (!bytes.ok()) continue;
    const std::string_view all(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    text += fmt::format("{} {}\n", value.name, partition::text_digest(all));
  }
  return text;
}

}  // namespace

Result<std::string> model_digest(const ir::Graph& imported, const passes::PipelineOptions& pipeline) {
  const std::set<std::string>& literals = pipeline.stored.file.literals;
  ir::Graph live = imported.clone();
  ir::remove_dead(live);
  RANNC_ASSIGN(const std::string form,
               ir::print_form(live, [&](std::string_view name) { return literals.contains(std::string(name)); }));
  return partition::text_digest(form) + partition::text_digest(constants_text(std::move(live), pipeline));
}

bool have_same_form(std::string_view a, std::string_view b) {
  return a.substr(0, a.size() / 2) == b.substr(0, b.size() / 2);
}

Result<void> import_loss(const RequestedModel& request, const ModelFiles& files, const Batching& batching,
                         ir::Graph& graph, passes::PipelineOptions& pipeline, PreparedModel& model) {
  if (!files.loss) return {};
  RANNC_TRY(*files.loss);
  const compiler::LossGraph& given = *request.options.loss_graph;
  // Sizes come from the model's outputs.
  const Batching of_loss{.kind = batching.kind};
  RANNC_ASSIGN(frontend::Imported loss, (*files.loss)->import({.batching = of_loss}));
  const size_t before = graph.value_count();
  RANNC_ASSIGN(const std::vector<passes::LossSpec> terms,
               passes::join_loss(graph, loss.graph, {given.file, given.inputs, given.weights}));
  for (const ValueId value : graph.values()) {
    if (value.index() < before || graph.kind(value) != ir::ValueKind::kConstant) continue;
    pipeline.stored.file.literals.emplace(graph.value(value).name);
  }
  pipeline.losses.insert(pipeline.losses.end(), terms.begin(), terms.end());
  model.remarks.insert(model.remarks.end(), loss.notes.remarks.begin(), loss.notes.remarks.end());
  model.open.insert(model.open.end(), loss.notes.open.begin(), loss.notes.open.end());
  return {};
}

}  // namespace rannc::tools
