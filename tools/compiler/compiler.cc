#include "tools/compiler/compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <utility>

#include "frontend/onnx/copy.h"
#include "frontend/read_model.h"
#include "frontend/symbols.h"
#include "ir/graph/assumptions.h"
#include "ir/plan/fixed_samples.h"
#include "ir/state/state_bytes.h"
#include "ir/verify.h"
#include "partition/model/fixed_batch.h"
#include "passes/batch/sample_rules.h"
#include "passes/planning/choose_kernels.h"
#include "passes/training/cut_functions.h"
#include "passes/training/differentiate.h"
#include "passes/training/selective_recompute.h"
#include "runtime/bundle/bundle.h"
#include "tools/common/machine.h"
#include "tools/compiler/kernel_choice.h"
#include "tools/compiler/model_files.h"
#include "tools/compiler/named_tasks.h"
#include "tools/compiler/plan_costs.h"
#include "tools/compiler/planning_sizes.h"
#include "tools/compiler/requested_outputs.h"
#include "tools/compiler/sample_independence.h"
#include "tools/compiler/torch_evaluator.h"
#include "tools/compiler/untrained_weights.h"

namespace rannc::tools {

namespace {

Diagnostic with_reproducer(Diagnostic failure, const passes::RunReport& report, const std::string& path) {
  if (!report.internal || report.reproducer.empty() || path.empty()) return failure;
  std::ofstream file(path);
  file << report.reproducer;
  if (!file.flush()) return failure;
  return std::move(failure).note(fmt::format("this is a defect of rannc; {} reproduces it", path));
}

// Returns the names of all atoms: nodes of the file, values that tasks produce, and modules that contain them.
std::vector<AtomName> task_names(const PreparedModel& model) {
  std::vector<AtomName> names;
  for (size_t atom = 0; atom < model.atoms.tasks.size(); ++atom) {
    const ir::Graph::Task task = model.graph.task(model.atoms.tasks[atom]);
    const auto id = static_cast<uint32_t>(atom);
    if (!task.location.node.empty()) names.push_back({task.location.node, id});
    for (const ValueId output : task.outputs) names.push_back({std::string(model.graph.value(output).name), id});
    for (const std::string& innermost : modules_of(model.graph, model.atoms.tasks[atom], model.modules)) {
      for (std::string& module : with_enclosing(innermost)) names.push_back({std::move(module), id});
    }
  }
  return names;
}

Passed run_passes(ir::Graph graph, const passes::PipelineOptions& pipeline, const passes::ManagerOptions& options,
                  const passes::PassManager::Show& show) {
  Passed passed{std::move(graph), {}, {}, {}};
  const TorchEvaluator evaluator;
  passed.context.evaluator = &evaluator;
  passed.report = passes::standard_pipeline(pipeline).run(passed.graph, passed.context, options, show);
  passed.context.evaluator = nullptr;
  return passed;
}

/// Checks numerically that a batch-polymorphic model and its losses match the static model of the file.
class ByNumbers {
 public:
  ByNumbers(const compiler::ReadOptions& options, const CompileProgress& progress)
      : progress_(progress), symbols_(options.assumed_sizes.begin(), options.assumed_sizes.end()) {}

  /// Checks the result of the pass rebatch. If a comparison is impossible, accepts the model and adds a note.
  Result<void> judge(const ir::Graph& file, const ir::Graph& made, int64_t samples, passes::PassContext& context) {
    begin();
    RANNC_ASSIGN(const Compared found, compare_with_file(file, made, samples, symbols_, limits()));
    note(found, context);
    samples_ = samples;
    return {};
  }
  /// Checks the losses after all passes.
  Result<void> judge_losses(const ir::Graph& file, const std::vector<passes::LossSpec>& requested,
                            const ir::Graph& graph, passes::PassContext& context) {
    if (graph.losses().empty() || not_compared_) return {};
    begin();
    RANNC_ASSIGN(const Compared found, compare_losses(graph, loss_in(file, requested), symbols_, limits()));
    note(found, context);
    return {};
  }

  /// Checks a loss of the file that was rewritten as sums over samples.
  Result<void> judge_opened(const ir::Graph& before, const std::vector<double>& weights, const ir::Graph& after,
                            passes::PassContext& context) {
    if (progress_.step) progress_.step("comparing the loss with that of the file");
    Compared found;
    for (const int64_t samples : kSamplesOfLoss) {
      FileLoss loss{before, samples, {}, kTolerance};
      for (size_t i = 0; i < weights.size(); ++i) loss.outputs.emplace_back(before.outputs()[i], weights[i]);
      RANNC_ASSIGN(found, compare_loss(after, loss, symbols_, limits_of_loss()));
      if (found.not_compared.empty()) return {};
      if (!found.too_large) break;
    }
    context.open.push_back({{}, "the loss was not compared numerically with that of the file: " + found.not_compared});
    return {};
  }

 private:
  static constexpr int64_t kSamplesOfLoss[] = {5, 3, 2};  // fewer where these are too large
  static constexpr double kTolerance = 1e-9;              // both are computed in double precision
  void begin() const {
    if (progress_.step) progress_.step("comparing batched with per-sample execution");
  }
  // Returns the loss in the file's graph; nullopt unless the file computes all of it.
  std::optional<FileLoss> loss_in(const ir::Graph& file, const std::vector<passes::LossSpec>& requested) const {
    FileLoss loss{file, samples_, {}};
    for (const passes::LossSpec& spec : requested) {
      if (spec.kind != passes::LossSpec::Kind::kInGraph) return std::nullopt;
      const ValueId output = spec.output.empty() ? file.outputs().front() : file.find(spec.output);
      if (!output.valid()) return std::nullopt;
      loss.outputs.emplace_back(output, spec.weight);
    }
    return loss.outputs.empty() ? std::nullopt : std::optional(std::move(loss));
  }
  static CompareLimits limits() { return {.free_bytes = static_cast<double>(free_memory_bytes())}; }
  // A loss over a large vocabulary takes seconds per GiB.
  static CompareLimits limits_of_loss() {
    CompareLimits limits = ByNumbers::limits();
    limits.free_bytes = std::min(limits.free_bytes, 2.0 * (uint64_t{1} << 30));
    return limits;
  }
  void note(const Compared& found, passes::PassContext& context) {
    if (found.not_compared.empty()) return;
    not_compared_ = true;
    context.open.push_back(
        {{}, "batched and per-sample execution were not compared numerically: " + found.not_compared});
  }

  const CompileProgress& progress_;
  const ir::Bindings symbols_;
  int64_t samples_ = 0;  // of the file
  bool not_compared_ = false;
};

/// Prepares a model by one attempt after the other, until one succeeds.
class Attempts {
 public:
  Attempts(const RequestedModel& request, const ModelFiles& files, const CompileProgress& progress)
      : request_(request), files_(files), progress_(progress) {}

  Result<PreparedModel> run() {
    auto model = prepare({});
    const bool text = files_.model.format == frontend::ModelFormat::kText;
    if (model.ok() || internal_ || text || request_.options.samples_in_file) return model;
    const Diagnostic why = model.diagnostic();
    auto whole = prepare_whole(why);
    if (!whole.ok()) {
      if (whole.diagnostic().message == why.message) return why;
      return Diagnostic(why).note("also with undivided mini-batches: " + whole.diagnostic().message,
                                  whole.diagnostic().where);
    }
    whole->open.push_back({why.where, why_whole(*whole)});
    // Such as that an output may be a loss, which the user can request.
    whole->open.insert(whole->open.end(), why.notes.begin(), why.notes.end());
    return whole;
  }

 private:
  // Prepares a model whose mini-batch cannot be divided. If it does not compile for any number of samples, uses that of
  // the options. A model without a loss may also be one of single samples.
  Result<PreparedModel> prepare_whole(const Diagnostic& why) {
    auto model = prepare({BatchKind::kWhole, why});
    if (model.ok()) {
      model->batching.symbol = frontend::symbol_of_whole(model->graph, request_.import);
      return model;
    }
    const Diagnostic of_data = model.diagnostic();
    model = prepare({BatchKind::kWhole, why, mini_batch()});
    if (model.ok() || !request_.pipeline.losses.empty() || request_.options.loss_graph) return model;
    auto single = prepare({BatchKind::kWhole, why, 1});
    if (!single.ok()) return model;
    single->open.push_back({of_data.where, "the model accepts one sample at a time: " + of_data.message});
    return single;
  }

  // With a loss, `open-loss` has made metrics of such outputs or left them out.
  static Result<void> check_counted_outputs(const ir::Graph& graph) {
    if (!graph.losses().empty()) return {};
    for (const ValueId output : passes::counted_outputs(graph)) {
      return error(graph.location(graph.producer(output)),
                   fmt::format("output '{}' depends on the number of samples or on a sample's index, which differ "
                               "between a micro-batch and the mini-batch",
                               graph.value(output).name));
    }
    return {};
  }

  Result<PreparedModel> prepare(const Batching& batching) {
    PreparedModel model;
    passes::PipelineOptions pipeline = files_.pipeline;
    RANNC_ASSIGN(model.graph, import_model(request_, files_, batching, pipeline, model));
    if (digest_.empty()) {  // of the first attempt: later ones may import a number of samples
      RANNC_ASSIGN(digest_, model_digest(model.graph, pipeline));
    }
    model.digest = digest_;
    model.modules = pipeline.trained_file.modules;
    model.read.tasks = model.graph.task_count();
    for (const ValueId input : model.graph.inputs()) {
      const ir::BatchLayout& batch = model.graph.type(input).batch;
      if (batch.has_batch()) ++model.read.batch_axes[batch.axis];
    }
    RANNC_TRY(import_loss(request_, files_, batching, model.graph, pipeline, model));
    RANNC_TRY(ir::as_result(ir::verify(model.graph)));
    if (batching.kind != BatchKind::kWhole) model.read.samples = ir::fixed_samples(model.graph);
    const std::vector<std::string> integers = integer_weights(model.graph);
    const passes::StoredFacts stored = pipeline.stored;
    Passed passed = run_for_losses(std::move(model.graph), pipeline.losses, [&](ir::Graph graph) {
      return batching.kind == BatchKind::kWhole ? run_as(batching, std::move(graph), pipeline, request_.manager)
                                                : run_divisible(std::move(graph), pipeline);
    });
    passes::PassContext& context = passed.context;
    model.report = std::move(passed.report);
    internal_ = model.report.internal;
    if (!model.report.ok()) return with_reproducer(*model.report.failure, model.report, request_.options.reproducer);
    RANNC_TRY(check_counted_outputs(passed.graph));
    RANNC_CHECK(context.atoms.has_value()) << "the pipeline ends with form-atoms";
    model.graph = std::move(passed.graph);
    model.batching = std::move(passed.batching);
    model.atoms = std::move(*context.atoms);
    model.remarks.insert(model.remarks.end(), context.remarks.begin(), context.remarks.end());
    model.open.insert(model.open.end(), context.open.begin(), context.open.end());
    model.parted = std::move(context.parted);
    model.folded = passes::folded_tensors(model.graph, stored);
    for (const Note& warning : context.warnings) model.warnings.push_back(warning.message);
    RANNC_ASSIGN(const std::vector<std::string> untrained, check_trained(model.graph, integers, request_.path));
    model.warnings.insert(model.warnings.end(), untrained.begin(), untrained.end());
    return model;
  }

  Passed run_as(const Batching& batching, ir::Graph graph, const passes::PipelineOptions& pipeline,
                const passes::ManagerOptions& manager) const {
    Passed passed = run_passes(std::move(graph), pipeline, manager, progress_.show_pass);
    passed.batching = batching;
    return passed;
  }

  // Makes a static batch size symbolic if possible. Otherwise keeps it and notes why.
  Passed run_divisible(ir::Graph graph, passes::PipelineOptions pipeline) const {
    ByNumbers numbers(request_.options, progress_);
    pipeline.baked = passes::BakedBatch{request_.options.samples_in_file, pipeline.stored.file,
                                        [&](auto&&... what) { return numbers.judge(what...); }};
    pipeline.judge_loss = [&](auto&&... what) { return numbers.judge_opened(what...); };
    if (!graph.batch_symbol().empty()) return run_as({}, std::move(graph), pipeline, request_.manager);
    if (pipeline.excluded.contains("rebatch"))
      return run_as({BatchKind::kFixed}, std::move(graph), pipeline, request_.manager);
    Passed passed = run_as({BatchKind::kPolymorphic}, graph.clone(), pipeline, request_.manager);
    if (passed.report.ok()) {
      const auto judged = numbers.judge_losses(graph, pipeline.losses, passed.graph, passed.context);
      if (!judged.ok()) passed.report.failure = judged.diagnostic();
    }
    if (passed.report.ok() && passed.graph.batch_symbol().empty()) passed.batching.kind = BatchKind::kFixed;
    if (passed.report.ok() || passed.report.internal || request_.options.samples_in_file) return passed;
    const Diagnostic why = *passed.report.failure;
    pipeline.baked.reset();
    passes::ManagerOptions others = request_.manager;
    std::erase(others.print_after, "rebatch");
    passed = run_as({BatchKind::kFixed, why}, std::move(graph), pipeline, others);
    if (passed.report.ok())
      passed.context.open.push_back({why.where, "the static batch size of the file is kept: " + why.message});
    return passed;
  }

  // Samples of a mini-batch that cannot be divided.
  uint32_t mini_batch() const { return request_.options.mini_batch.value_or(kMiniBatch); }

  // Explains why mini-batches cannot be divided, and what would make them divisible.
  std::string why_whole(const PreparedModel& model) const {
    const Diagnostic& why = *model.batching.reason;
    const std::string& symbol = model.batching.symbol;
    const uint32_t samples = symbol.empty() ? ir::fixed_samples(model.graph).value_or(1) : mini_batch();
    const bool of_data = !symbol.empty() && ir::undivided_symbol(model.graph).empty();
    const std::string extent = of_data ? std::string("the mini-batch of all inputs together")
                                       : fmt::format("a mini-batch of {} sample{}", samples, samples == 1 ? "" : "s");
    const std::string at = why.where.node.empty() ? std::string() : fmt::format("'{}': ", why.where.node);
    return fmt::format("{} is not divided, but runs as one micro-batch without replicas: {}{}; {}", extent, at,
                       why.message, partition::kDivisible);
  }

  const RequestedModel& request_;
  const ModelFiles& files_;
  const CompileProgress& progress_;
  std::string digest_;     // of the model
  bool internal_ = false;  // whether the last attempt failed by a defect
};

}  // namespace

PreparedModel clone(const PreparedModel& model) {
  return {model.graph.clone(), model.atoms,  model.read,   model.remarks, model.open,     model.warnings,
          model.report,        model.digest, model.parted, model.folded,  model.batching, model.modules};
}

Result<PreparedModel> prepare_model(const frontend::ModelSource& source, const compiler::ReadOptions& options,
                                    const CompileProgress& progress) {
  RANNC_ASSIGN(const RequestedModel request, requested_model(source, options));
  RANNC_ASSIGN(const ModelFiles files, parse_files(request));
  return Attempts(request, files, progress).run();
}

namespace {

/// Returns an error if `--dtype` would change the type of a tensor.
Result<void> check_precision(const std::string& path, const passes::PipelineOptions& pipeline, const ir::Graph& graph) {
  for (const ir::StateTensor& tensor : ir::full_state(graph).tensors) {
    const ir::DType dtype = graph.type(tensor.parts[0].value).dtype;
    if (!pipeline.precision || !ir::is_float(dtype) || dtype == *pipeline.precision) continue;
    return error({path, 0, 0, {}},
                 fmt::format("tensor {} is {} and cannot be converted to {}: a copy of the model keeps all types",
                             tensor.name, ir::str(dtype), ir::str(*pipeline.precision)));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> copy_with_weights(const std::string& path, const compiler::ReadOptions& options,
                                                   const std::string& to, bool replace) {
  if (frontend::model_format(path) != frontend::ModelFormat::kOnnx) {
    return error({path, 0, 0, {}},
                 "is not an ONNX file; --emit onnx writes a copy of an ONNX model with other weights");
  }
  RANNC_ASSIGN(const RequestedModel request, requested_model(path, options));
  RANNC_ASSIGN(const ModelFiles files, parse_files(request));
  passes::PipelineOptions pipeline = files.pipeline;
  PreparedModel model;
  RANNC_ASSIGN(ir::Graph graph, import_model(request, files, {}, pipeline, model));
  const auto weights = std::exchange(pipeline.weights, std::nullopt);
  passes::PassContext context;
  const passes::RunReport report = passes::stored_values_pipeline(pipeline).run(graph, context, {.reproducer = false});
  if (!report.ok()) return *report.failure;
  RANNC_TRY(check_precision(path, pipeline, graph));
  std::map<ValueId, ir::TensorData> before;
  for (const ValueId value : graph.values()) {
    if (graph.value(value).data.present()) before.emplace(value, graph.value(value).data);
  }
  passes::PassContext loaded;
  RANNC_TRY(passes::LoadWeights(weights).run(graph, loaded));
  RANNC_ASSIGN(const frontend::CopyReport copy, frontend::copy_onnx({path, to, graph, before, replace}));
  std::vector<std::string> lines;
  for (const Note& warning : loaded.warnings) lines.push_back("warning: " + warning.message);
  lines.push_back(
      fmt::format("{} tensors of {} have the values of {}", copy.replaced + copy.added.size(), path, options.weights));
  if (!copy.added.empty()) {
    lines.push_back(fmt::format("{} of them became separate initializers, because {} had merged them: {}",
                                copy.added.size(), path, fmt::join(copy.added, ", ")));
  }
  if (!copy.data_file.empty()) lines.push_back(fmt::format("external tensors of the model are in {}", copy.data_file));
  return lines;
}

namespace {

uint32_t planned_samples(const RequestedPlan& request, const PreparedModel& model, const ir::Bindings& sizes) {
  const auto whole = ir::fixed_samples(model.graph, sizes);
  if (whole && !model.batching.symbol.empty()) return *whole;
  const uint32_t of_file = model.read.samples.value_or(kMiniBatch);
  return request.options.mini_batch.value_or(whole ? *whole : of_file > 1 ? of_file : kMiniBatch);
}

/// Returns the plan options without costs.
Result<partition::PlanOptions> unpriced(const RequestedPlan& request, const PreparedModel& model,
                                        const CompileProgress& progress) {
  partition::PlanOptions plan = request.planning;
  if (request.on_this_machine && plan.cluster.size() > machine_cores() && progress.remark) {
    progress.remark(fmt::format("{} workers share the {} cores of this machine; task times assume one core per worker",
                                plan.cluster.size(), machine_cores()));
  }
  if (const std::string& symbol = model.batching.symbol; !symbol.empty())
    plan.assume.emplace(symbol, request.options.mini_batch.value_or(kMiniBatch));
  if (const std::string symbol = ir::undivided_symbol(model.graph); !symbol.empty() && request.options.mini_batch) {
    plan.assume[symbol] = *request.options.mini_batch;
  }
  RANNC_TRY(ir::check_assumptions(model.graph, plan.assume));
  RANNC_ASSIGN(PlanningSizes sizes, planning_sizes(model.graph, plan.assume));
  if (progress.note && !sizes.guessed.empty()) progress.note(describe_guess(sizes));
  plan.assume = std::move(sizes.sizes);
  plan.mini_batch = planned_samples(request, model, plan.assume);
  RANNC_ASSIGN(plan.demands, named_demands(request.options, task_names(model)));
  plan.training = !model.graph.losses().empty();
  plan.model_digest = model.digest;
  plan.parts_backward = true;  // as all engines do
  plan.cut_functions = [](ir::Plan& chosen) { return passes::cut_functions(chosen); };
  plan.recompute_choices = [](const ir::Joint& joint, const ir::RecomputeCosts& costs) {
    return passes::SelectiveRecompute(joint, costs).hull();
  };
  plan.batching = model.batching;
  RANNC_TRY(partition::check_undivided(model.graph, plan));
  return plan;
}

}  // namespace

Result<partition::PlanOptions> plan_options(const RequestedPlan& request, const PreparedModel& model,
                                            const CompileProgress& progress, PreparedModel* chooses) {
  RANNC_ASSIGN(partition::PlanOptions plan, unpriced(request, model, progress));
  const bool chosen = request.options.kernels == compiler::Kernels::kMeasured && passes::has_alternatives(model.graph);
  if (!chosen) chooses = nullptr;
  if (chooses != nullptr && on_cuda(plan.cluster)) {
    RANNC_ASSIGN(const bool changed, choose_cuda_layouts(*chooses, plan.assume, tensor_cores(request)));
    if (changed && progress.remark) progress.remark(chooses->remarks.back().message);
  }
  RANNC_TRY(add_costs(request, model, chooses, plan, progress));
  if (chooses != nullptr) {  // other tasks, other atoms
    RANNC_ASSIGN(plan.demands, named_demands(request.options, task_names(model)));
  }
  return plan;
}

Result<partition::PlannedModel> plan_prepared(const PreparedModel& model, const partition::PlanOptions& options) {
  passes::StageBorder border;
  border.device = options.cluster.kind_of(DeviceId(0)).type;
  RANNC_ASSIGN(ir::Joint joint, passes::differentiate(model.graph, border));
  partition::PlanOptions planning = options;
  planning.joint = std::make_shared<const ir::Joint>(std::move(joint));
  RANNC_ASSIGN(auto outcome, partition::plan_model(model.graph, model.atoms, planning));
  if (auto* planned = std::get_if<partition::PlannedModel>(&outcome)) return std::move(*planned);
  return no_plan(std::get<partition::Infeasible>(outcome));
}

}  // namespace rannc::tools
