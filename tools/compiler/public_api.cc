// The functions of rannc/compiler.h, over the library that rannc-compile shares with other programs.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <filesystem>
#include <thread>

#include "codegen/bundle_writer.h"
#include "ir/graph/constant.h"
#include "ir/text/text.h"
#include "partition/model/cut_comments.h"
#include "runtime/aten/thread_state.h"
#include "runtime/bundle/libraries.h"
#include "runtime/device/devices.h"
#include "runtime/train/process.h"
#include "tools/common/gpu_cluster.h"
#include "tools/compiler/compiled.h"
#include "tools/compiler/foreign_calls.h"
#include "tools/compiler/model_report.h"
#include "tools/compiler/plan_facts.h"
#include "tools/compiler/refine.h"
#include "tools/compiler/requested_plan.h"
#include "tools/compiler/saved_plan.h"
#include "tools/compiler/search_limit.h"
#include "tools/compiler/stage_models.h"

namespace rannc::compiler {

namespace {

/// Makes LibTorch use one thread per operator, as a worker of a run does, until the end of its lifetime: in this thread
/// and in new ones, whose numbers may differ.
class OneThread {
 public:
  OneThread() {
    in_new_thread([this] { of_new_threads_ = at::get_num_threads(); });
    at::set_num_threads(1);
  }
  ~OneThread() {
    at::set_num_threads(of_this_thread_);
    in_new_thread([this] { at::set_num_threads(of_new_threads_); });
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  template <class Job>
  static void in_new_thread(const Job& job) {
    std::thread(job).join();
  }

  int of_this_thread_ = at::get_num_threads(), of_new_threads_ = 1;
};

void begin(const Progress& progress, Phase phase) {
  if (progress.phase) progress.phase(phase);
}

tools::CompileProgress watcher(const Progress& progress) {
  return {progress.graph, progress.step, progress.remark, progress.note};
}

Result<tools::RequestedPlan> request_for(const Model::State& model, const PlanOptions& options) {
  const std::string plugin = options.cuda_plugin.empty() ? runtime::kCudaPlugin : options.cuda_plugin;
  RANNC_ASSIGN(tools::RequestedPlan request,
               tools::requested_plan(options, model.options, [&plugin] { return tools::gpu_cluster(plugin); }));
  if (model.bundle) model.bundle->apply(request);
  return request;
}

/// Describes the prices that a plan's objective, bound and gap refer to.
std::string prices(const tools::RequestedPlan& request, const partition::PlanOptions& options) {
  if (options.costs->fingerprint().empty()) return "prices estimated from the cluster's rates";
  if (request.options.costs == Costs::kMeasured) return "times of tasks measured one by one";
  return "prices of " + request.options.cost_database;
}

/// Names the file of a hand-written schedule in an error about it.
Diagnostic located(Diagnostic failure, const partition::PlanOptions& options) {
  const bool of_schedule = failure.rule.starts_with("S") && failure.where.file.empty();
  if (of_schedule && !options.schedule_file.empty()) failure.where.file = options.schedule_file;
  return failure;
}

Result<partition::PlannedModel> search(const tools::PreparedModel& model, const Progress& progress,
                                       partition::PlanOptions& options, std::optional<double> limit_ns,
                                       tools::SearchReport& report) {
  begin(progress, Phase::kSearching);
  tools::SearchLimit limit(limit_ns, progress.stop);
  options.stop = limit.token();
  auto planned = tools::plan_prepared(model, options);
  const std::string ended = limit.end();
  if (!planned.ok()) return located(planned.diagnostic(), options);
  report.seconds = limit.seconds();
  report.stopped = limit.stopped();
  report.warnings = tools::warnings_of(planned->stages);
  if (!ended.empty()) report.warnings.push_back(ended);
  return planned;
}

/// Names what runs stages, with the version of the compiler.
Result<std::string> form_of(const Programs& programs) {
  if (programs.form != Form::kNative) return std::string("interpreted");
  RANNC_ASSIGN(const auto compiler, codegen::NativeCompiler::open(programs.cxx, programs.cache));
  return fmt::format("native, {}, loops {}", compiler.version(), programs.loops);
}

Result<std::optional<codegen::NativeForm>> native_form(const ir::Plan& plan, const Programs& programs,
                                                       const Progress& progress) {
  using Native = std::optional<codegen::NativeForm>;
  if (programs.form != Form::kNative) return Native();
  RANNC_ASSIGN(codegen::NativeCompiler compiler, codegen::NativeCompiler::open(programs.cxx, programs.cache));
  const auto compiled = [step = progress.step, stages = plan.stages.size()](size_t done) {
    if (step) step(fmt::format("compiling stages: {} of {}", done, stages));
  };
  return Native({std::move(compiler), {.loops = programs.loops}, compiled});
}

}  // namespace

bool Model::trains() const { return !state_->prepared.graph.losses().empty(); }

uint64_t Model::tasks() const { return state_->prepared.graph.task_count(); }

uint64_t Model::parameters() const {
  const ir::Graph& graph = state_->prepared.graph;
  uint64_t count = 0;
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    count += static_cast<uint64_t>(ir::static_count(graph.type(value)).value_or(0));
  }
  return count;
}

const std::vector<std::string>& Model::warnings() const { return state_->prepared.warnings; }

std::string Model::report() const {
  return tools::model_report(state_->prepared, state_->file, tools::Detail::kBrief) +
         (state_->foreign_calls.ok() ? *state_->foreign_calls : "");
}

std::string Model::text() const { return ir::print(state_->prepared.graph); }

const PlanFacts& Plan::facts() const { return state_->facts; }

std::string Plan::text() const {
  ir::Plan plan = state_->planned.plan.clone();
  plan.functions.clear();  // they follow from the rest
  const std::string text = ir::print(plan);
  return state_->options.given ? text : partition::with_cut_reasons(text, state_->planned);
}

namespace {

Result<Model> read_source(const frontend::ModelSource& source, const ReadOptions& options, const Progress& progress) {
  const runtime::NewThreadState as_new_thread;
  begin(progress, Phase::kReading);
  std::vector<runtime::Library> libraries;
  for (const std::string& file : options.libraries) {
    RANNC_ASSIGN(libraries.emplace_back(), runtime::load_library(file));
  }
  RANNC_ASSIGN(tools::PreparedModel prepared, tools::prepare_model(source, options, watcher(progress)));
  auto calls = tools::foreign_calls(prepared.graph);
  return Model(std::make_shared<const Model::State>(
      Model::State{source.path.string(), options, std::move(prepared), std::move(calls), std::move(libraries)}));
}

}  // namespace

Result<Model> read(const std::string& path, const ReadOptions& options, const Progress& progress) {
  return read_source(path, options, progress);
}

Result<Model> read(const ModelSource& source, const ReadOptions& options, const Progress& progress) {
  frontend::ModelSource in_memory(source.name);
  in_memory.bytes = source.content.bytes;
  in_memory.size = source.content.size;
  for (const auto& [name, memory] : source.tensors) {
    in_memory.tensors[name] = ir::TensorData::shared(memory.bytes, memory.size);
  }
  return read_source(in_memory, options, progress);
}

Result<Model> read_bundle(const std::string& path, const std::vector<std::string>& libraries,
                          const Progress& progress) {
  const runtime::NewThreadState as_new_thread;
  begin(progress, Phase::kReading);
  RANNC_ASSIGN(tools::BundleModel read, tools::read_bundle(path, libraries));
  auto calls = tools::foreign_calls(read.model.graph);
  return Model(std::make_shared<const Model::State>(Model::State{
      path, {}, std::move(read.model), std::move(calls), std::move(read.libraries), std::move(read.planned)}));
}

Result<Plan> plan(const Model& model, const PlanOptions& options, const Progress& progress) {
  const runtime::NewThreadState as_new_thread;
  const Model::State& read = model.state();
  if (!read.foreign_calls.ok()) return read.foreign_calls.diagnostic();
  RANNC_ASSIGN(tools::RequestedPlan request, request_for(read, options));
  const OneThread as_in_a_run;
  begin(progress, Phase::kPricing);
  tools::PreparedModel chosen = tools::clone(read.prepared);
  if (!options.plan.empty()) RANNC_TRY(tools::use_saved_plan(options.plan, request, chosen));
  if (!options.lost.empty() && !read.bundle)
    return error("--lost: only a bundle has a plan to start from; use a cluster without the devices");
  if (!options.lost.empty()) RANNC_TRY(tools::start_from_bundle(read.file, request));
  RANNC_ASSIGN(partition::PlanOptions planning, tools::plan_options(request, chosen, watcher(progress), &chosen));
  tools::SearchReport report;
  report.prices = prices(request, planning);
  const bool refines = options.refine && request.options.costs == Costs::kMeasured;
  const auto native = [&](const ir::Plan& plan) { return native_form(plan, options.programs, progress); };
  tools::PlanRuns runs(planning.cluster, planning.assume, native, {progress.step, progress.remark});
  std::optional<tools::KeptRuns> kept;
  if (refines && tools::keeps_costs(request)) {
    RANNC_ASSIGN(const std::string form, form_of(options.programs));
    RANNC_ASSIGN(kept, tools::KeptRuns::open(options.cost_database, form));
    runs.keep_in(*kept);
  }
  if (refines) {
    planning.measure = [&runs](const ir::Plan& plan) { return runs.measure(plan); };
    planning.measured_finalists = options.programs.form == Form::kNative ? 1 : 2;  // native ones are compiled first
  }
  RANNC_ASSIGN(partition::PlannedModel planned, search(chosen, progress, planning, options.time_limit_ns, report));
  planning.stop = {};
  planning.measure = {};
  if (refines) {
    begin(progress, Phase::kRefining);
    RANNC_ASSIGN(report.measured, runs.refine(planned));
  }
  if (kept) {
    RANNC_TRY(kept->write());
    if (progress.remark) progress.remark(kept->report());
  }
  PlanFacts facts = tools::plan_facts(planned, report);
  report.warnings.insert(report.warnings.begin(), read.prepared.warnings.begin(), read.prepared.warnings.end());
  return Plan(std::make_shared<const Plan::State>(Plan::State{std::move(planned), std::move(planning),
                                                              std::move(report), read.libraries, std::move(facts),
                                                              read.file, read.options, read.prepared.modules}));
}

Result<void> write(const Plan& plan, const std::string& path, const WriteOptions& options, const Progress& progress) {
  const runtime::NewThreadState as_new_thread;
  begin(progress, Phase::kWriting);
  const Plan::State& state = plan.state();
  codegen::BundleOptions bundle{
      .replace = options.replace, .libraries = state.libraries, .stage_program = options.stage_program};
  // The cuts of a saved plan have no reason but that it has them.
  if (!state.options.given)
    bundle.comment = [&](const std::string& text) { return partition::with_cut_reasons(text, state.planned); };
  RANNC_ASSIGN(bundle.native, native_form(state.planned.plan, options.programs, progress));
  if (options.stage_onnx && !std::filesystem::is_regular_file(state.file)) {
    return error({.file = state.file}, "has no nodes of ONNX: stages as ONNX files are cut from the model's file");
  }
  if (options.stage_onnx) {
    bundle.add_files = [&](const std::string& folder) -> Result<void> {
      RANNC_ASSIGN(const tools::StageModelLines lines,
                   tools::write_stage_models(state.file, state.read, state.planned.plan, folder));
      for (const std::string& line : lines.cut) {
        if (progress.remark) progress.remark(line);
      }
      return {};
    };
  }
  return codegen::write_bundle(state.planned.plan, bundle, path);
}

void use_tensor_heap() { runtime::use_tensor_heap(); }
void keep_freed_memory() { runtime::keep_freed_memory(); }

}  // namespace rannc::compiler
