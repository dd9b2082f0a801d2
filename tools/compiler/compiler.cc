#include "tools/compiler/compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "frontend/onnx/copy.h"
#include "frontend/onnx/folded_values.h"
#include "frontend/onnx/import.h"
#include "frontend/symbols.h"
#include "frontend/torchscript/import.h"
#include "frontend/whole_batch.h"
#include "ir/graph/assumptions.h"
#include "ir/plan/fixed_samples.h"
#include "ir/state/state_bytes.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "partition/cost/analytic.h"
#include "partition/cost/profile_database.h"
#include "partition/model/fixed_batch.h"
#include "partition/schedule/family.h"
#include "passes/loss/join_loss.h"
#include "passes/planning/choose_kernels.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/state_dict.h"
#include "tools/common/machine.h"
#include "tools/compile/profile_plan.h"
#include "tools/compiler/kernel_choice.h"
#include "tools/compiler/model_format.h"
#include "tools/compiler/requested_outputs.h"
#include "tools/compiler/sample_independence.h"
#include "tools/compiler/torch_evaluator.h"
#include "tools/compiler/undivided_batch.h"
#include "tools/compiler/untrained_weights.h"
#include "tools/measure/measure.h"

namespace rannc::tools {

namespace {

Result<double> number_of(const std::string& given, const std::string& text, const std::string& flag) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  return error(fmt::format("{} {}: expected a number", flag, given));
}

// The loss of a second file, whose tensors are no state of the model.
Result<void> add_loss_graph(const CompileOptions& options, bool whole, ir::Graph& graph,
                            passes::PipelineOptions& pipeline, PreparedModel& model) {
  const bool of_torch = is_of_torch(model_format(options.loss_graph));
  frontend::ImportOptions import;
  if (whole) import.whole.emplace();  // its sizes are those of the model's outputs
  RANNC_ASSIGN(frontend::Imported loss, of_torch ? frontend::read_torch(options.loss_graph, import)
                                                 : frontend::read_onnx(options.loss_graph, import));
  passes::LossGraph how{.file = options.loss_graph};
  RANNC_ASSIGN(how.inputs, pairs(options.loss_inputs, "--loss-input"));
  RANNC_ASSIGN(const auto weights, pairs(options.loss_weights, "--loss-weight"));
  for (const auto& [output, text] : weights) {
    RANNC_ASSIGN(how.weights[output], number_of(output + "=" + text, text, "--loss-weight"));
  }
  const size_t before = graph.value_count();
  RANNC_ASSIGN(const std::vector<passes::LossSpec> terms, passes::join_loss(graph, loss.graph, how));
  for (const ValueId value : graph.values()) {
    if (value.index() < before || graph.kind(value) != ir::ValueKind::kConstant) continue;
    pipeline.stored.file.literals.emplace(graph.value(value).name);
  }
  pipeline.losses.insert(pipeline.losses.end(), terms.begin(), terms.end());
  model.remarks.insert(model.remarks.end(), loss.notes.remarks.begin(), loss.notes.remarks.end());
  model.open.insert(model.open.end(), loss.notes.open.begin(), loss.notes.open.end());
  return {};
}

// Inputs that are always `true`, `false` or a number.
Result<frontend::InputValues> input_values(const CompileOptions& options) {
  RANNC_ASSIGN(const auto given, pairs(options.input_values, "--input-value"));
  frontend::InputValues values;
  for (const auto& [name, text] : given) {
    const std::string number = text == "true" ? "1" : text == "false" ? "0" : text;
    RANNC_ASSIGN(values[name], number_of(name + "=" + text, number, "--input-value"));
  }
  if (values.empty() || !is_of_torch(model_format(options.model))) return values;
  return error({options.model, 0, 0, {}}, "--input-value is of ONNX files; export this module with that value instead");
}

// By the frontend of its format. What a user says of inputs and outputs is an error of the file that says it itself.
Result<frontend::Imported> import_model(const CompileOptions& options, frontend::ImportOptions& import) {
  RANNC_ASSIGN(const frontend::InputValues values, input_values(options));
  if (!is_of_torch(model_format(options.model))) return frontend::read_onnx(options.model, import, values);
  import.inputs = options.inputs;
  import.outputs = options.output_names;
  auto imported = frontend::read_torch(options.model, import);
  if (imported.ok() || imported.diagnostic().where.file == options.model) return imported;
  Diagnostic failure = imported.diagnostic();  // of a flag, or of a line of the program that the file was made by
  if (failure.where.file.empty()) {
    failure.where.file = options.model;
    return failure;
  }
  return std::move(failure).note("in this file", {options.model, 0, 0, {}});
}

Result<void> check_signature_flags(const CompileOptions& options) {
  const char* const flag = !options.inputs.empty()         ? "--input"
                           : !options.output_names.empty() ? "--output-name"
                                                           : nullptr;
  if (flag == nullptr || is_of_torch(model_format(options.model))) return {};
  return error(
      {options.model, 0, 0, {}},
      fmt::format("{} is of PyTorch's files, .pt and .pt2; this one says what its inputs and outputs are", flag));
}

Result<void> add_same_symbols(const CompileOptions& options, frontend::ImportOptions& import) {
  for (const std::string& text : options.same_symbol) {
    RANNC_ASSIGN(const auto symbols, pairs({text}, "--same-symbol"));
    frontend::unite_symbols(import.same_symbol, symbols.begin()->first, symbols.begin()->second);
  }
  return {};
}

// What the file says of stored tensors and of training goes into `pipeline`, what users should know into the model.
Result<ir::Graph> read_model(const CompileOptions& options, passes::PipelineOptions& pipeline, PreparedModel& model,
                             const std::optional<frontend::WholeBatch>& whole = {}) {
  RANNC_TRY(check_signature_flags(options));
  if (model_format(options.model) == ModelFormat::kText) {
    std::ifstream file(options.model);
    if (!file) return error({options.model, 0, 0, {}}, "cannot be opened");
    std::ostringstream text;
    text << file.rdbuf();
    return ir::parse_graph(text.str(), options.model);
  }
  frontend::ImportOptions import;
  if (!options.batch_symbol.empty()) import.batch_symbol = options.batch_symbol;
  import.missing_weights = options.without_weights;
  import.max_trips = options.max_trips;
  RANNC_TRY(add_same_symbols(options, import));
  import.whole = whole;
  RANNC_ASSIGN(import.asked, asked_outputs(options, pipeline.losses));
  RANNC_ASSIGN(frontend::Imported imported, import_model(options, import));
  model.read.nodes = imported.notes.nodes;
  pipeline.stored.file = std::move(imported.notes.stored);
  if (!is_of_torch(model_format(options.model)) && !pipeline.stored.file.listed.empty()) {
    RANNC_ASSIGN(pipeline.stored.made_of, frontend::read_folded_values(options.model, import));
  }
  pipeline.trained_file = std::move(imported.notes.training);
  model.remarks = std::move(imported.notes.remarks);
  model.open = std::move(imported.notes.open);
  for (const auto& [text, nodes] : imported.notes.counted_remarks) {
    model.remarks.push_back({{options.model, 0, 0, {}}, fmt::format("{} {}", nodes, text)});
  }
  for (const auto& [text, nodes] : imported.notes.counted_warnings) {
    model.warnings.push_back(fmt::format("{} {}", nodes, text));
  }
  return std::move(imported.graph);
}

// What a user knows of gradients that the file lost.
Result<passes::LostGradients> lost_gradients(const CompileOptions& options) {
  passes::LostGradients lost;
  RANNC_ASSIGN(const auto padding, pairs(options.padding, "--padding-index"));
  for (const auto& [table, text] : padding) {
    RANNC_ASSIGN(const double row, number_of(table + "=" + text, text, "--padding-index"));
    if (std::floor(row) != row) return error(fmt::format("--padding-index {}={}: expected an integer", table, text));
    lost.padding[table] = static_cast<int64_t>(row);
  }
  lost.stopped.insert(options.stopped.begin(), options.stopped.end());
  lost.strict.insert(options.strict.begin(), options.strict.end());
  return lost;
}

Result<passes::TrainingRequest> training_asked(const TrainingFlags& flags) {
  passes::TrainingRequest asked;
  for (const std::string& pattern : flags.batch_norms) {
    if (pattern == kEveryBatchNorm) {
      asked.batch_norm = true;
    } else {
      asked.batch_norms.insert(pattern);
    }
  }
  asked.momentum = flags.batch_norm_momentum;
  RANNC_ASSIGN(const auto dropout, pairs(flags.dropout, "--dropout"));
  for (const auto& [pattern, text] : dropout) {
    RANNC_ASSIGN(asked.dropout[pattern], number_of(pattern + "=" + text, text, "--dropout"));
  }
  asked.lost_dropout = flags.lost_dropout;
  if (const auto fault = passes::fault_of(asked)) return error(*fault);
  return asked;
}

Result<passes::GivenWeights> given_weights(const CompileOptions& options) {
  RANNC_ASSIGN(const auto file, runtime::SafetensorsFile::open(options.weights));
  return passes::GivenWeights{options.weights, runtime::tensors_by_name(file), options.partial_weights,
                              !options.dtype.empty()};
}

Result<passes::PipelineOptions> pipeline_options(const CompileOptions& options) {
  passes::PipelineOptions pipeline;
  if (!options.weights.empty()) {
    RANNC_ASSIGN(pipeline.weights, given_weights(options));
  }
  if (!options.loss.empty()) {
    RANNC_ASSIGN(pipeline.losses, passes::parse_losses(options.loss));
  }
  if (options.dtype == "float32") pipeline.precision = ir::DType::kF32;
  if (options.dtype == "float64") pipeline.precision = ir::DType::kF64;
  if (!options.dtype.empty() && !pipeline.precision) {
    return error(fmt::format("--dtype {}: expected float32 or float64", options.dtype));
  }
  RANNC_ASSIGN(pipeline.lost, lost_gradients(options));
  RANNC_ASSIGN(pipeline.training, training_asked(options.training));
  pipeline.sync_batch_norm = options.sync_batch_norm;
  pipeline.left_out.insert(options.left_out.begin(), options.left_out.end());
  for (const auto& [patterns, kind] :
       {std::pair(&options.frozen, ir::ValueKind::kBuffer), std::pair(&options.buffers, ir::ValueKind::kBuffer),
        std::pair(&options.trained, ir::ValueKind::kParameter)}) {
    for (const std::string& pattern : *patterns) pipeline.stored.patterns.push_back({pattern, kind});
  }
  pipeline.stored.tied = options.tied;
  pipeline.stored.untied = options.untied;
  const bool trains = !options.loss.empty() || !options.loss_graph.empty();
  using Merged = passes::StoredFacts::Merged;
  pipeline.stored.merged = trains && !options.merged_allowed ? Merged::kRefused : Merged::kAllowed;
  RANNC_ASSIGN(const auto kinds, pairs(options.kinds, "--kind"));
  for (const auto& [name, kind] : kinds) {
    if (kind == "parameter") {
      pipeline.stored.kinds[name] = ir::ValueKind::kParameter;
    } else if (kind == "buffer") {
      pipeline.stored.kinds[name] = ir::ValueKind::kBuffer;
    } else if (kind == "constant") {
      pipeline.stored.kinds[name] = ir::ValueKind::kConstant;
    } else {
      return error(fmt::format("--kind {}={}: expected parameter, buffer or constant", name, kind));
    }
  }
  return pipeline;
}

Diagnostic with_reproducer(Diagnostic failure, const passes::RunReport& report) {
  if (!report.internal || report.reproducer.empty()) return failure;
  const char* path = "rannc-reproducer.rir";
  std::ofstream file(path);
  file << report.reproducer;
  if (!file.flush()) return failure;
  return std::move(failure).note(fmt::format("this is a defect of rannc; {} repeats it", path));
}

// Nodes of the model's file, and values that tasks make.
std::vector<AtomName> task_names(const PreparedModel& model) {
  std::vector<AtomName> names;
  for (size_t atom = 0; atom < model.atoms.tasks.size(); ++atom) {
    const ir::Graph::Task task = model.graph.task(model.atoms.tasks[atom]);
    const auto id = static_cast<uint32_t>(atom);
    if (!task.location.node.empty()) names.push_back({task.location.node, id});
    for (const ValueId output : task.outputs) names.push_back({std::string(model.graph.value(output).name), id});
  }
  return names;
}

}  // namespace

Result<ir::Bindings> assumptions(const CompileOptions& options) {
  ir::Bindings bindings;
  RANNC_ASSIGN(const auto given, pairs(options.assume, "--assume"));
  for (const auto& [symbol, text] : given) {
    int64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size() || value < 1) {
      return error(fmt::format("--assume {}={}: expected a positive integer", symbol, text));
    }
    bindings[symbol] = value;
  }
  return bindings;
}

Result<std::map<std::string, std::string>> pairs(const std::vector<std::string>& texts, const std::string& flag) {
  std::map<std::string, std::string> found;
  for (const std::string& text : texts) {
    const size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      return error(fmt::format("{} {}: expected NAME=VALUE", flag, text));
    }
    found[text.substr(0, at)] = text.substr(at + 1);
  }
  return found;
}

namespace {

Passed run_passes(ir::Graph graph, const passes::PipelineOptions& pipeline, const passes::ManagerOptions& options,
                  const passes::PassManager::Show& show) {
  Passed passed{std::move(graph), {}, {}};
  const TorchEvaluator evaluator;
  passed.context.evaluator = &evaluator;
  passed.report = passes::standard_pipeline(pipeline).run(passed.graph, passed.context, options, show);
  passed.context.evaluator = nullptr;
  return passed;
}

/// Whether what was made for a number of samples takes any, by numbers; what that needs and what it finds out.
class ByNumbers {
 public:
  ByNumbers(const CompileOptions& options, const CompileProgress& progress) : progress_(progress) {
    auto symbols = assumptions(options);
    if (symbols.ok()) symbols_ = std::move(*symbols);  // what is wrong is said where sizes are needed
  }

  /// Of the pass rebatch. What cannot be compared is said and taken as it is.
  Result<void> judge(const ir::Graph& file, const ir::Graph& made, int64_t samples, passes::PassContext& context) {
    begin();
    RANNC_ASSIGN(const Compared found, compare_with_file(file, made, samples, symbols_, limits()));
    note(found, context);
    samples_ = samples;
    return {};
  }
  /// After all passes. `asked`: the losses that were asked for.
  Result<void> judge_losses(const ir::Graph& file, const std::vector<passes::LossSpec>& asked, const ir::Graph& graph,
                            passes::PassContext& context) {
    if (graph.losses().empty() || left_out_) return {};
    begin();
    RANNC_ASSIGN(const Compared found, compare_losses(graph, loss_in(file, asked), symbols_, limits()));
    note(found, context);
    return {};
  }

 private:
  void begin() const {
    if (progress_.step) progress_.step("running samples together and one by one");
  }
  // Where the file computes all of the loss.
  std::optional<FileLoss> loss_in(const ir::Graph& file, const std::vector<passes::LossSpec>& asked) const {
    FileLoss loss{file, samples_, {}};
    for (const passes::LossSpec& spec : asked) {
      if (spec.kind != passes::LossSpec::Kind::kInGraph) return std::nullopt;
      const ValueId output = spec.output.empty() ? file.outputs().front() : file.find(spec.output);
      if (!output.valid()) return std::nullopt;
      loss.outputs.emplace_back(output, spec.weight);
    }
    return loss.outputs.empty() ? std::nullopt : std::optional(std::move(loss));
  }
  static CompareLimits limits() { return {.free_bytes = static_cast<double>(free_memory_bytes())}; }
  void note(const Compared& found, passes::PassContext& context) {
    if (found.left_out.empty()) return;
    left_out_ = true;
    context.open.push_back(
        {{},
         "that samples computed together are those computed one by one was not tried with numbers: " + found.left_out});
  }

  const CompileProgress& progress_;
  ir::Bindings symbols_;
  int64_t samples_ = 0;  // in the file
  bool left_out_ = false;
};

// A file made for a number of samples takes any where that can be shown; else it is trained whole, and said why.
Passed run_baked_passes(ir::Graph graph, passes::PipelineOptions pipeline, const CompileOptions& options,
                        const CompileProgress& progress, std::optional<Diagnostic>& undivided) {
  ByNumbers numbers(options, progress);
  pipeline.baked = passes::BakedBatch{options.samples_in_file, pipeline.stored.file,
                                      [&](auto&&... what) { return numbers.judge(what...); }};
  const bool baked = graph.batch_symbol().empty() && !pipeline.left_out.contains("rebatch");
  Passed passed = run_passes(baked ? graph.clone() : std::move(graph), pipeline, options.passes, progress.show_pass);
  if (baked && passed.report.ok()) {
    const auto judged = numbers.judge_losses(graph, pipeline.losses, passed.graph, passed.context);
    if (!judged.ok()) passed.report.failure = judged.diagnostic();
  }
  if (passed.report.ok() || passed.report.internal || !baked || options.samples_in_file) return passed;
  const Diagnostic why = *passed.report.failure;
  pipeline.baked.reset();
  passes::ManagerOptions others = options.passes;
  std::erase(others.print_after, "rebatch");
  passed = run_passes(std::move(graph), pipeline, others, progress.show_pass);
  const std::string what = "its number of samples is in the file and stays: ";
  if (passed.report.ok()) passed.context.open.push_back({why.where, what + why.message});
  undivided = why;
  return passed;
}

/// How a model is read, and whether a failure is a defect of ours.
struct Attempt {
  std::optional<frontend::WholeBatch> whole;
  bool internal = false;
};

Result<PreparedModel> prepare(const CompileOptions& options, const CompileProgress& progress, Attempt& attempt) {
  PreparedModel model;
  RANNC_ASSIGN(model.digest, runtime::file_digest(options.model));
  RANNC_ASSIGN(passes::PipelineOptions pipeline, pipeline_options(options));
  RANNC_ASSIGN(model.graph, read_model(options, pipeline, model, attempt.whole));
  model.read.tasks = model.graph.task_count();
  for (const ValueId input : model.graph.inputs()) {
    const ir::BatchLayout& batch = model.graph.type(input).batch;
    if (batch.has_batch()) ++model.read.batch_axes[batch.axis];
  }
  if (!options.loss_graph.empty()) {
    RANNC_TRY(add_loss_graph(options, attempt.whole.has_value(), model.graph, pipeline, model));
  }
  RANNC_TRY(ir::as_result(ir::verify(model.graph)));
  model.read.samples = ir::fixed_samples(model.graph);
  const std::vector<std::string> integers = integer_weights(model.graph);
  const passes::StoredFacts stored = pipeline.stored;
  Passed passed = run_for_losses(std::move(model.graph), pipeline.losses, [&](ir::Graph graph) {
    model.undivided.reset();
    return attempt.whole ? run_passes(std::move(graph), pipeline, options.passes, progress.show_pass)
                         : run_baked_passes(std::move(graph), pipeline, options, progress, model.undivided);
  });
  passes::PassContext& context = passed.context;
  model.report = std::move(passed.report);
  attempt.internal = model.report.internal;
  if (!model.report.ok()) return with_reproducer(*model.report.failure, model.report);
  RANNC_CHECK(context.atoms.has_value()) << "the pipeline ends with form-atoms";
  model.graph = std::move(passed.graph);
  model.atoms = std::move(*context.atoms);
  model.remarks.insert(model.remarks.end(), context.remarks.begin(), context.remarks.end());
  model.open.insert(model.open.end(), context.open.begin(), context.open.end());
  model.parted = std::move(context.parted);
  model.folded = passes::folded_tensors(model.graph, stored);
  for (const Note& warning : context.warnings) model.warnings.push_back(warning.message);
  RANNC_ASSIGN(const std::vector<std::string> untrained, check_trained(model.graph, integers, options.model));
  model.warnings.insert(model.warnings.end(), untrained.begin(), untrained.end());
  if (auto assumed = assumed_samples(model.graph)) model.warnings.push_back(*std::move(assumed));
  return model;
}

// Of a model that cannot be divided: as one mini-batch, of a number of samples where each input has them or is shared
// by all.
Result<PreparedModel> prepare_whole(const CompileOptions& options, const CompileProgress& progress) {
  Attempt of_data{frontend::WholeBatch{}}, of_samples{frontend::WholeBatch{options.mini_batch.value_or(kMiniBatch)}};
  auto model = prepare(options, progress, of_data);
  if (model.ok()) {
    frontend::ImportOptions import;
    if (!options.batch_symbol.empty()) import.batch_symbol = options.batch_symbol;
    model->extent_of_data = frontend::symbol_of_whole(model->graph, import);
    if (!has_mini_batches(model->graph, model->extent_of_data)) return model;
  }
  auto fixed = prepare(options, progress, of_samples);
  return fixed.ok() || !model.ok() ? std::move(fixed) : std::move(model);
}

}  // namespace

Result<PreparedModel> prepare_model(const CompileOptions& options, const CompileProgress& progress) {
  Attempt divided;
  auto model = prepare(options, progress, divided);
  const bool text = model_format(options.model) == ModelFormat::kText;
  if (model.ok() || divided.internal || text || options.samples_in_file) return model;
  Diagnostic why = model.diagnostic();
  auto whole = prepare_whole(options, progress);
  if (!whole.ok()) {
    if (whole.diagnostic().message == why.message) return why;
    return std::move(why).note("with whole mini-batches, too: " + whole.diagnostic().message, whole.diagnostic().where);
  }
  if (whole->graph.losses().empty() && gives_a_number(whole->graph)) return why;  // it may be a loss to ask for
  whole->read.samples.reset();                                                    // those of the plan, not of the file
  whole->open.push_back({why.where, why_whole(*whole, why)});
  whole->undivided = std::move(why);
  return whole;
}

namespace {

/// The copy keeps the types of its original.
Result<void> check_precision(const CompileOptions& options, const passes::PipelineOptions& pipeline,
                             const ir::Graph& graph) {
  for (const ir::StateTensor& tensor : ir::full_state(graph).tensors) {
    const ir::DType dtype = graph.type(tensor.parts[0].value).dtype;
    if (!pipeline.precision || !ir::is_float(dtype) || dtype == *pipeline.precision) continue;
    return error({options.model, 0, 0, {}}, fmt::format("tensor {} is {}, and a copy keeps that: --dtype {} is not it",
                                                        tensor.name, ir::str(dtype), options.dtype));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> copy_with_weights(const CompileOptions& options, const std::string& to, bool replace) {
  if (is_of_torch(model_format(options.model))) {
    return error({options.model, 0, 0, {}}, "is no ONNX file, of which --emit onnx writes a copy with other numbers");
  }
  RANNC_ASSIGN(passes::PipelineOptions pipeline, pipeline_options(options));
  PreparedModel model;
  RANNC_ASSIGN(ir::Graph graph, read_model(options, pipeline, model));
  const auto weights = std::exchange(pipeline.weights, std::nullopt);
  passes::PassContext context;
  const passes::RunReport report = passes::stored_values_pipeline(pipeline).run(graph, context, {.reproducer = false});
  if (!report.ok()) return *report.failure;
  RANNC_TRY(check_precision(options, pipeline, graph));
  std::map<ValueId, ir::TensorData> before;
  for (const ValueId value : graph.values()) {
    if (graph.value(value).data.present()) before.emplace(value, graph.value(value).data);
  }
  passes::PassContext loaded;
  RANNC_TRY(passes::LoadWeights(weights).run(graph, loaded));
  RANNC_ASSIGN(const frontend::CopyReport copy, frontend::copy_onnx({options.model, to, graph, before, replace}));
  std::vector<std::string> lines;
  for (const Note& warning : loaded.warnings) lines.push_back("warning: " + warning.message);
  lines.push_back(fmt::format("{} tensors of {} have the numbers of {}", copy.replaced + copy.added.size(),
                              options.model, options.weights));
  if (!copy.added.empty()) {
    lines.push_back(fmt::format("{} of them are initializers of their own, where {} had several in one: {}",
                                copy.added.size(), options.model, fmt::join(copy.added, ", ")));
  }
  if (!copy.data_file.empty()) lines.push_back(fmt::format("tensors outside of the model are in {}", copy.data_file));
  return lines;
}

namespace {

/// What this machine takes for the tasks, and for what could stand for them where `chooses` is not null: it then gets
/// the kernels that are fastest at the number of samples that the plan computes at once.
Result<partition::ProfileDatabase> measured(const PreparedModel& model, PreparedModel* chooses,
                                            const partition::PlanOptions& plan, const partition::PlanOptions& searched,
                                            const CompileProgress& progress) {
  MeasureOptions measure{.sizes = measured_sizes(searched.mini_batch), .assume = plan.assume, .step = progress.step};
  partition::ProfileDatabase database;
  RANNC_TRY(measure_tasks(model.graph, measure, database));
  if (chooses == nullptr) return database;
  partition::PlanOptions first = plan;
  first.costs = partition::measured_costs(database, environment_name(), partition::analytic_costs());
  const uint64_t samples = samples_at_once(model, first);
  MeasureOptions alternatives = measure;
  alternatives.sizes = {samples};
  RANNC_TRY(measure_alternatives(model.graph, alternatives, database));
  RANNC_ASSIGN(const bool changed, choose_kernels(*chooses, database, environment_name(), samples));
  if (!changed) return database;
  if (progress.remark) progress.remark(chooses->remarks.back().message);
  RANNC_TRY(measure_tasks(chooses->graph, measure, database));
  return database;
}

uint32_t planned_samples(const CompileOptions& options, const PreparedModel& model) {
  const auto whole = ir::fixed_samples(model.graph);
  if (whole && !model.extent_of_data.empty()) return *whole;
  const uint32_t of_file = model.read.samples.value_or(kMiniBatch);
  return options.mini_batch.value_or(whole ? *whole : of_file > 1 ? of_file : kMiniBatch);
}

/// `chooses` is `model`, or null: its kernels stay.
Result<partition::PlanOptions> planned_with(const CompileOptions& options, const PreparedModel& model,
                                            PreparedModel* chooses, const CompileProgress& progress) {
  partition::PlanOptions plan;
  RANNC_ASSIGN(plan.cluster, demanded_cluster(options));
  if (options.cluster.starts_with("local:") && plan.cluster.size() > machine_cores() && progress.remark) {
    progress.remark(fmt::format("{} workers share the {} cores of this machine; times of tasks are of a core each",
                                plan.cluster.size(), machine_cores()));
  }
  RANNC_ASSIGN(plan.assume, assumptions(options));
  if (!model.extent_of_data.empty()) {
    plan.assume.emplace(model.extent_of_data, options.mini_batch.value_or(kMiniBatch));
  }
  RANNC_TRY(ir::check_assumptions(model.graph, plan.assume));
  plan.mini_batch = planned_samples(options, model);
  plan.micro_batches = options.micro_batches;
  plan.blocks = options.blocks;
  plan.block_partitioner = options.block_partitioner;
  plan.planner = options.planner;
  plan.search = demanded_search(options);
  if (options.schedules.size() == 1) plan.schedule = options.schedules.front();
  if (partition::schedule_needs(plan.schedule, partition::ScheduleFamily::Needs::kTable)) {
    RANNC_ASSIGN(plan.schedule_table, schedule_table(options));
    plan.schedule_file = options.schedule_file;
  }
  plan.objective = demanded_objective(options);
  plan.time_limit_ns = options.step_limit_ns;
  plan.constraints = demanded_constraints(options);
  RANNC_ASSIGN(plan.demands, named_demands(options, task_names(model)));
  plan.recompute = demanded_recompute(options);
  plan.optimizer = demanded_optimizer(options);
  plan.optimizer_states = plan.optimizer.states();
  plan.training = !model.graph.losses().empty();
  plan.seed = options.seed;
  plan.model_digest = model.digest;
  RANNC_TRY(check_undivided(model, plan));
  RANNC_ASSIGN(const partition::PlanOptions searched, partition::with_fixed_batch(model.graph, plan));
  if (options.costs == "analytic") {
    plan.costs = partition::analytic_costs();
  } else if (options.costs == "measured") {
    RANNC_ASSIGN(partition::ProfileDatabase database, measured(model, chooses, plan, searched, progress));
    plan.costs = partition::measured_costs(std::move(database), environment_name(), partition::analytic_costs());
  } else {
    RANNC_ASSIGN(partition::ProfileDatabase database, partition::ProfileDatabase::read(options.costs));
    if (options.cluster.starts_with("local:")) use_measured_links(database, plan.cluster);
    if (chooses != nullptr) {
      partition::PlanOptions first = plan;
      first.costs = database_costs(model.graph, database, options.costs, {});
      const uint64_t samples = samples_at_once(model, first);
      RANNC_ASSIGN(const bool changed, choose_kernels(*chooses, database, environment_name(), samples));
      if (changed && progress.remark) progress.remark(chooses->remarks.back().message);
    }
    plan.costs = database_costs(model.graph, std::move(database), options.costs, progress.remark);
  }
  return plan;
}

}  // namespace

Result<partition::PlanOptions> plan_options(const CompileOptions& options, const PreparedModel& model,
                                            const CompileProgress& progress) {
  return planned_with(options, model, nullptr, progress);
}

Result<partition::PlanOptions> plan_with_kernels(const CompileOptions& options, PreparedModel& model,
                                                 const CompileProgress& progress) {
  const bool chooses = options.kernels == "measured" && passes::has_alternatives(model.graph);
  return planned_with(options, model, chooses ? &model : nullptr, progress);
}

Result<partition::PlannedModel> plan_prepared(const PreparedModel& model, const partition::PlanOptions& options) {
  RANNC_TRY(check_undivided(model, options));
  RANNC_ASSIGN(auto outcome, partition::plan_model(model.graph, model.atoms, options));
  if (auto* planned = std::get_if<partition::PlannedModel>(&outcome)) return std::move(*planned);
  return no_plan(std::get<partition::Infeasible>(outcome));
}

}  // namespace rannc::tools
