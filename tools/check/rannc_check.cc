// rannc-check: compares one step of a model with reference numbers under any cut and schedule.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "codegen/bundle_writer.h"
#include "ir/plan/fixed_samples.h"
#include "ir/state/state_bytes.h"
#include "partition/model/finish_plan.h"
#include "partition/model/fixed_batch.h"
#include "runtime/data/dataset.h"
#include "runtime/data/numbers.h"
#include "runtime/data/sample_file.h"
#include "runtime/engine/engine.h"
#include "runtime/train/outputs.h"
#include "runtime/train/process.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transports.h"
#include "tools/check/check_report.h"
#include "tools/check/reference.h"
#include "tools/common/driver.h"
#include "tools/common/gpu_environment.h"
#include "tools/common/hardware.h"
#include "tools/common/launcher.h"
#include "tools/common/libraries.h"
#include "tools/common/number_checks.h"
#include "tools/common/programs.h"
#include "tools/common/scratch.h"
#include "tools/compile/compile_flags.h"
#include "tools/compile/native_form.h"
#include "tools/compiler/compiler.h"
#include "tools/compiler/kernel_choice.h"
#include "tools/compiler/model_report.h"
#include "tools/run/output_parts.h"
#include "tools/run/run_worker.h"

namespace {

namespace fs = std::filesystem;
namespace runtime = rannc::runtime;
namespace partition = rannc::partition;
namespace tools = rannc::tools;
using nlohmann::json;
using rannc::Result;
using Variant = tools::CheckVariant;

/// Number of devices of each stage.
using Cut = std::vector<uint32_t>;

uint32_t devices_of(const Cut& cut) { return std::accumulate(cut.begin(), cut.end(), 0U); }

struct Flags {
  std::vector<std::string> folders;
  std::string model;  ///< file of each folder; empty: model.onnx, else .pt, .pt2
  std::vector<Cut> cuts;
  std::vector<uint32_t> micro_batches;  ///< empty: 4, or 1 where the batch is fixed
  std::vector<std::string> schedules{"1f1b"};
  std::vector<std::string> recompute{"never"};
  std::vector<std::string> transports{"local"};
  std::string engine;                 ///< empty: the default
  std::string cxx;                    ///< compiler of engine native; empty: the first in the PATH
  std::string device;                 ///< empty: the processor
  rannc::compiler::ReadOptions read;  ///< from the flags shared with rannc-compile
  tools::PassFlags passes;
  bool snapped = false;  ///< restore constants that the file rounds to float32
  std::string dtype = "float64";
  bool fp64() const { return dtype == "float64"; }
  /// Whether the file's own numbers are the reference.
  bool as_it_stands() const { return fp64() && !snapped; }
  std::string summary;
  double least_share = 0;
  std::string workers;  ///< scratch folder of the process that started this one
};

/// A folder and the findings about its model.
struct Case {
  tools::CheckFolder folder;
  bool fixed_batch = false;                                 ///< no symbol counts its samples
  std::vector<std::string> warnings, not_done, conditions;  ///< as reported by rannc-compile
};

std::optional<rannc::ir::RecomputedMicroBatches> recompute_of(const std::string& mode) {
  if (mode == "never") return std::nullopt;
  using Which = rannc::ir::RecomputedMicroBatches;
  return mode == "always" ? Which::kAll : Which::kAllButLast;
}

std::vector<Variant> variants(const Flags& flags, const Case& checked, const Cut& cut) {
  std::vector<Variant> list;
  const std::vector<uint32_t> usual{checked.fixed_batch ? 1U : 4U};
  for (const uint32_t micro_batches : flags.micro_batches.empty() ? usual : flags.micro_batches) {
    for (const std::string& schedule : flags.schedules) {
      for (const std::string& recompute : flags.recompute) {
        list.push_back({cut, {micro_batches, schedule, recompute_of(recompute)}});
      }
    }
  }
  return list;
}

std::string bundle_path(const std::string& scratch, size_t folder, const Cut& cut) {
  return (fs::path(scratch) / fmt::format("{}-{}.rannc", folder, fmt::join(cut, "x"))).string();
}

// Workers do not compile. They read the compiler's findings from a file beside the bundles.
fs::path findings_file(const std::string& scratch, size_t folder) {
  return fs::path(scratch) / fmt::format("{}-findings.json", folder);
}
void write_findings(const fs::path& path, const Case& checked) {
  const tools::CheckFolder& folder = checked.folder;
  std::ofstream(path) << json{
      {"fixed_batch", checked.fixed_batch},
      {"parted", folder.parted},
      {"stand_ins", folder.stand_ins},
      {"recomputed",
       folder.recomputed}}.dump();
}
void read_findings(const fs::path& path, Case& checked) {
  std::ifstream file(path);
  const json found = json::parse(file);
  checked.fixed_batch = found.at("fixed_batch");
  checked.folder.parted = found.at("parted");
  checked.folder.stand_ins = found.at("stand_ins");
  checked.folder.recomputed = found.at("recomputed");
}

// Smallest share of the total work in one stage, by the plan's times.
double least_share(const rannc::ir::Plan& plan) {
  std::vector<double> work(plan.stages.size(), 0);
  for (const auto& time : plan.stage_times) {
    double& entry = work[time.stage.index()];
    entry = std::max(entry, static_cast<double>(time.forward_ns + time.backward_ns));
  }
  double total = 0;
  for (const double part : work) total += part;
  return total > 0 ? *std::min_element(work.begin(), work.end()) / total : 0;
}

rannc::compiler::ReadOptions read_options(const Flags& flags, const tools::CheckFolder& folder) {
  rannc::compiler::ReadOptions options = flags.read;
  if (options.inputs.empty()) options.inputs = folder.inputs;
  if (options.output_names.empty()) options.output_names = folder.output_names;
  options.loss = folder.loss;
  if (!folder.loss_graph.empty()) options.loss_graph = {folder.loss_graph, folder.loss_inputs, folder.loss_weights};
  options.precision = flags.fp64() ? rannc::compiler::Precision::kFloat64 : rannc::compiler::Precision::kFloat32;
  if (flags.as_it_stands()) {
    // The float64 reference evaluates the unmodified file, with separate copies of each parameter.
    const std::vector<std::string> copies = tools::tied_copies(folder);
    options.untied.insert(options.untied.end(), copies.begin(), copies.end());
    options.skipped_passes.emplace_back("snap-constants");
  }
  options.mini_batch = folder.samples;
  return options;
}

rannc::compiler::PlanOptions plan_options(const Cut& cut) {
  using namespace rannc::compiler;
  return {.cluster = fmt::format("local:{}", devices_of(cut)),
          .optimizer = Optimizer::kSgd,
          .micro_batches = {1},
          .stages = static_cast<uint32_t>(cut.size()),
          .recompute = Recompute::kNever,
          // Prefer even stages, so that each one has work to test.
          .planner = devices_of(cut) == cut.size() ? "gpipe" : "auto",
          .costs = Costs::kAnalytic};
}

/// Counts the samples of the folder's mini-batch along the model's batch axes.
Result<uint32_t> samples_of(const rannc::ir::Graph& graph, const tools::CheckFolder& folder) {
  RANNC_ASSIGN(const auto file, runtime::SafetensorsFile::open(folder.batch));
  std::map<std::string, runtime::TensorSpec> tensors;
  for (const auto& entry : file.entries()) {
    tensors.emplace(entry.name.starts_with("x/") ? entry.name.substr(2) : entry.name, entry.spec);
  }
  RANNC_ASSIGN(const uint64_t samples, runtime::count_samples(graph, tensors, folder.batch));
  return static_cast<uint32_t>(std::min<uint64_t>(samples, std::numeric_limits<uint32_t>::max()));
}

Result<void> check_fixed_batch(const Flags& flags, const Case& checked, const tools::PreparedModel& model,
                               uint32_t samples) {
  for (const uint32_t count : flags.micro_batches) {
    if (count == 1) continue;
    partition::PlanOptions demanded;
    demanded.micro_batches = {count};
    demanded.batching = model.batching;
    RANNC_TRY(partition::check_undivided(model.graph, demanded));
    rannc::Diagnostic failure =
        rannc::error({checked.folder.model, 0, 0, {}},
                     fmt::format("the file has a static batch size: the mini-batch of {} cannot be divided, but "
                                 "--micro-batches {} is requested",
                                 samples, count),
                     "P15");
    for (const std::string& line : checked.not_done) failure.notes.push_back({{}, line});
    return failure;
  }
  return {};
}

// Bundles have the form of the engine that runs them.
Result<rannc::codegen::BundleOptions> bundle_options(const Flags& flags) {
  rannc::codegen::BundleOptions options;
  if (flags.engine != "native") return options;
  const tools::FormFlags form{.form = rannc::compiler::Form::kNative, .cxx = flags.cxx};
  RANNC_ASSIGN(const rannc::compiler::Programs found, tools::programs_of(form, flags.passes.loops));
  if (found.form != rannc::compiler::Form::kNative) return rannc::error("--engine native needs a C++ compiler");
  RANNC_ASSIGN(rannc::codegen::NativeCompiler compiler, rannc::codegen::NativeCompiler::open(found.cxx, found.cache));
  options.native = rannc::codegen::NativeForm{std::move(compiler), {.loops = found.loops}};
  return options;
}

Result<void> compile_case(const Flags& flags, const runtime::Device& device, const std::string& scratch, size_t index,
                          Case& checked) {
  const tools::CheckFolder& folder = checked.folder;
  rannc::compiler::ReadOptions read = read_options(flags, folder);
  RANNC_ASSIGN(tools::PreparedModel model, tools::prepare_model(folder.model, read));
  checked.warnings = model.warnings;
  checked.conditions = tools::conditions(model.graph);
  checked.not_done = tools::not_done(model, tools::Detail::kBrief);
  checked.folder.parted = model.parted;
  checked.folder.stand_ins = model.folded.stand_ins;
  checked.folder.recomputed = !model.folded.recomputed.empty();
  const auto samples = rannc::ir::fixed_samples(model.graph);
  checked.fixed_batch = samples.has_value();
  if (samples) {
    read.mini_batch.reset();
    RANNC_TRY(check_fixed_batch(flags, checked, model, *samples));
  } else {
    RANNC_ASSIGN(read.mini_batch, samples_of(model.graph, folder));
  }
  write_findings(findings_file(scratch, index), checked);
  RANNC_ASSIGN(read.assumed_sizes, tools::assumed_sizes(model.graph, folder.batch));
  if (device.is_asynchronous()) {  // in the memory formats of plans for such devices
    RANNC_TRY(tools::choose_cuda_layouts(model, {read.assumed_sizes.begin(), read.assumed_sizes.end()},
                                         rannc::passes::TensorCores::kSixteenBits));
  }
  RANNC_ASSIGN(const rannc::codegen::BundleOptions form, bundle_options(flags));
  for (const Cut& cut : flags.cuts) {
    RANNC_ASSIGN(const tools::RequestedPlan request, tools::requested_plan(plan_options(cut), read));
    RANNC_ASSIGN(partition::PlanOptions plan, tools::plan_options(request, model));
    plan.constraints.replicas = cut;
    for (partition::DeviceKind& kind : plan.cluster.kinds) kind.type = device.type();
    RANNC_ASSIGN(partition::PlannedModel planned, tools::plan_prepared(model, plan));
    if (const double share = least_share(planned.plan); share < flags.least_share) {
      return rannc::error({folder.path, 0, 0, {}},
                          fmt::format("with {} stages, one has only {:.1f} % of the work, below --least-share",
                                      cut.size(), share * 100));
    }
    RANNC_TRY(rannc::codegen::write_bundle(planned.plan, form, bundle_path(scratch, index, cut)));
  }
  return {};
}

// T is double or float, the types that a check computes in.
template <class T>
std::vector<std::byte> bytes_as(const std::vector<double>& numbers) {
  const std::vector<T> as(numbers.begin(), numbers.end());
  std::vector<std::byte> bytes(as.size() * sizeof(T));
  std::memcpy(bytes.data(), as.data(), bytes.size());
  return bytes;
}
template <class T>
std::vector<double> numbers_from(const std::vector<std::byte>& bytes) {
  std::vector<T> as(bytes.size() / sizeof(T));
  std::memcpy(as.data(), bytes.data(), as.size() * sizeof(T));
  return {as.begin(), as.end()};
}

tools::OwnTensor own_tensor(const runtime::Value& value) { return {value->spec().shape, runtime::to_doubles(value)}; }

/// Runs all variants of one folder, on all devices or on this process's device.
class FolderRun {
 public:
  FolderRun(const Flags& flags, const tools::Hardware& hardware, const Case& checked, std::string scratch, size_t index)
      : flags_(flags),
        hardware_(hardware),
        case_(checked),
        folder_(checked.folder),
        scratch_(std::move(scratch)),
        index_(index) {}

  /// Returns a result per variant, ordered by cut and then as `variants`. A null transport runs all devices here.
  Result<std::vector<tools::CheckResult>> run(const std::shared_ptr<runtime::Transport>& transport) {
    RANNC_ASSIGN(const runtime::Batch raw, runtime::read_batch(folder_.batch));
    std::vector<tools::CheckResult> results;
    for (const Cut& cut : flags_.cuts) {
      const bool idle = transport && transport->device().index() >= devices_of(cut);
      if (idle) {
        results.resize(results.size() + variants(flags_, case_, cut).size());
        continue;
      }
      RANNC_TRY(run_cut(cut, transport, raw, results));
    }
    return results;
  }

 private:
  Result<void> run_cut(const Cut& cut, const std::shared_ptr<runtime::Transport>& transport, const runtime::Batch& raw,
                       std::vector<tools::CheckResult>& results) {
    const std::string path = bundle_path(scratch_, index_, cut);
    runtime::TrainerOptions options;
    options.engine = flags_.engine;
    options.hardware = hardware_.all();
    RANNC_ASSIGN(auto trainer, transport ? runtime::Trainer::open_worker(path, options, transport)
                                         : runtime::Trainer::open(path, options));
    runtime::Batch batch = runtime::to_model_types(trainer->plan(), raw);
    if (!flags_.read.input_values.empty()) leave_out_unread(trainer->plan().graph, batch);
    if (!trainer->plan().training)
      std::erase_if(batch, [](const auto& entry) { return entry.first.starts_with("labels/"); });
    for (const Variant& variant : variants(flags_, case_, cut)) {
      RANNC_ASSIGN(const tools::OwnNumbers own, run_variant(*trainer, variant, batch, transport.get()));
      results.push_back(
          tools::compare(folder_, own, {flags_.fp64(), !transport, variant.change.micro_batches, flags_.snapped}));
    }
    return {};
  }

  // Removes inputs that the graph does not have, because a fixed input value made them unused.
  static void leave_out_unread(const rannc::ir::Graph& graph, runtime::Batch& batch) {
    std::set<std::string> read;
    for (const rannc::ValueId input : graph.inputs()) read.emplace(graph.value(input).name);
    std::erase_if(
        batch, [&](const auto& entry) { return !entry.first.starts_with("labels/") && !read.contains(entry.first); });
  }

  // Worker 0 compares the outputs, since replicas have only parts of a tensor and references may have only some
  // entries.
  Result<std::map<std::string, runtime::Value>> whole_outputs(runtime::Trainer& trainer,
                                                              const runtime::StepResult& step,
                                                              const runtime::Batch& batch,
                                                              const runtime::Transport* transport) const {
    if (transport == nullptr) return step.outputs;
    const rannc::ir::Plan& plan = trainer.plan();
    RANNC_ASSIGN(const auto bound, runtime::bind_evaluation(plan, batch));
    runtime::Outputs outputs(plan, bound.symbols);
    outputs.add(step, 0);
    const auto rank = static_cast<uint32_t>(transport->device().index());
    RANNC_TRY(tools::gather_parts(trainer, outputs, scratch_, rank));
    if (rank > 0) return std::map<std::string, runtime::Value>{};
    return outputs.whole(bound.samples);
  }

  Result<tools::OwnNumbers> run_variant(runtime::Trainer& trainer, const Variant& variant, const runtime::Batch& batch,
                                        const runtime::Transport* transport) const {
    RANNC_ASSIGN(rannc::ir::Plan plan, partition::reschedule(trainer.plan(), variant.change));
    const bool training = plan.training;
    RANNC_TRY(trainer.reschedule(std::move(plan)));
    RANNC_ASSIGN(const runtime::StepResult step, training ? trainer.accumulate(batch) : trainer.evaluate(batch));
    RANNC_ASSIGN(const auto outputs, whole_outputs(trainer, step, batch, transport));
    tools::OwnNumbers own;
    for (const auto& [name, value] : outputs) own.outputs[name] = own_tensor(value);
    for (const auto& [name, value] : step.metrics) own.outputs[name] = own_tensor(value);
    if (!training) return own;
    own.loss = step.loss;
    RANNC_ASSIGN(const auto gradients, trainer.gradients());
    for (const auto& [name, value] : gradients) own.gradients[name] = own_tensor(value);
    own.in_branches = tools::read_in_branches(trainer.plan().graph);
    RANNC_TRY(add_state(trainer.plan().graph, gradients, own));
    return own;
  }

  // Adds gradients of the program's state tensors whose parts are all trained in this process.
  Result<void> add_state(const rannc::ir::Graph& graph, const std::map<std::string, runtime::Value>& gradients,
                         tools::OwnNumbers& own) const {
    const auto name_of = [&](rannc::ValueId value) { return std::string(graph.value(value).name); };
    for (const rannc::ir::StateTensor& tensor : graph.state()) {
      tools::StateGradient made{{tensor.shape, {}}, tensor.parts, {}};
      for (const rannc::ir::StatePart& part : tensor.parts) made.of.insert(name_of(part.value));
      const bool here = std::all_of(made.of.begin(), made.of.end(),
                                    [&](const std::string& name) { return gradients.contains(name); });
      if (!here) continue;
      const auto read = [&](rannc::ValueId value) -> Result<std::vector<std::byte>> {
        const std::vector<double> numbers = runtime::to_doubles(gradients.at(name_of(value)));
        return flags_.fp64() ? bytes_as<double>(numbers) : bytes_as<float>(numbers);
      };
      RANNC_ASSIGN(const auto bytes, rannc::ir::state_bytes(graph, tensor, read));
      made.tensor.values = flags_.fp64() ? numbers_from<double>(bytes) : numbers_from<float>(bytes);
      own.state.emplace(tensor.name, std::move(made));
    }
    return {};
  }

  const Flags& flags_;
  const tools::Hardware& hardware_;
  const Case& case_;
  const tools::CheckFolder& folder_;
  std::string scratch_;
  size_t index_;
};

fs::path part_file(const std::string& scratch, uint32_t rank) {
  return fs::path(scratch) / fmt::format("part-{}.json", rank);
}

// A worker gets exactly one transport.
const runtime::TransportKind& transport_of(const Flags& flags) { return *runtime::find_transport(flags.transports[0]); }

// Runs a worker: every folder and variant, then writes its results to a file.
Result<void> run_worker(const Flags& flags, const tools::Hardware& hardware, std::vector<Case>& cases,
                        const tools::WorkerEnvironment& worker) {
  RANNC_ASSIGN(std::shared_ptr<runtime::Transport> transport,
               transport_of(flags).join({.host = worker.master_address,
                                         .port = worker.master_port,
                                         .rank = worker.rank,
                                         .workers = worker.workers,
                                         .listening_socket = worker.listening_socket,
                                         .secret = worker.secret},
                                        hardware.at(worker.local_rank)));
  json all = json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    read_findings(findings_file(flags.workers, i), cases[i]);
    RANNC_ASSIGN(const auto results, FolderRun(flags, hardware, cases[i], flags.workers, i).run(transport));
    for (const tools::CheckResult& result : results) all.push_back(tools::to_json(result));
  }
  std::ofstream file(part_file(flags.workers, worker.rank));
  file << all.dump();
  if (!file.flush())
    return rannc::error({part_file(flags.workers, worker.rank).string(), 0, 0, {}},
                        std::string("cannot be written: ") + std::strerror(errno));
  return {};
}

// Merges the workers' results. A name that no worker had shows in the number of compared gradients.
Result<std::vector<tools::CheckResult>> run_processes(const Flags& flags, const std::string& transport,
                                                      const std::vector<Case>& cases, const std::string& scratch) {
  uint32_t workers = 0;
  for (const Cut& cut : flags.cuts) workers = std::max(workers, devices_of(cut));
  std::vector<std::string> arguments;  // folders first: a flag with a list would consume them
  for (const Case& checked : cases) arguments.push_back(checked.folder.path);
  arguments.insert(arguments.end(), {"--workers", scratch, "--dtype", flags.dtype, "--transport", transport});
  if (!flags.engine.empty()) arguments.insert(arguments.end(), {"--engine", flags.engine});
  if (!flags.device.empty()) arguments.insert(arguments.end(), {"--device", flags.device});
  if (!flags.model.empty()) arguments.insert(arguments.end(), {"--model", flags.model});
  if (flags.snapped) arguments.emplace_back("--snap-constants");
  const auto add = [&arguments](const char* flag, const auto& values) {
    for (const auto& value : values) {
      arguments.push_back(flag);
      arguments.push_back(fmt::format("{}", value));
    }
  };
  for (const Cut& cut : flags.cuts)
    arguments.insert(arguments.end(), {"--replicas", fmt::format("{}", fmt::join(cut, ","))});
  add("--micro-batches", flags.micro_batches);
  add("--schedule", flags.schedules);
  add("--recompute", flags.recompute);
  add("--load-library", flags.read.libraries);
  for (const auto& [name, value] : flags.read.input_values)
    arguments.insert(arguments.end(), {"--input-value", fmt::format("{}={}", name, value)});
  // This process may be one that runs several programs.
  RANNC_ASSIGN(const int code,
               tools::launch_workers(tools::program_beside("rannc-check"), arguments, {.workers = workers}));
  if (code != 0) throw tools::Exit{code};
  std::vector<tools::CheckResult> merged;
  for (uint32_t rank = 0; rank < workers; ++rank) {
    std::ifstream file(part_file(scratch, rank));
    const json part = json::parse(file, nullptr, false);
    if (!part.is_array()) return rannc::error(fmt::format("worker {} left no results", rank));
    merged.resize(part.size());
    for (size_t i = 0; i < part.size(); ++i) merged[i].merge(tools::result_from_json(part[i]));
  }
  size_t next = 0;
  for (const Case& checked : cases) {
    for (const Cut& cut : flags.cuts) {
      for (const Variant& variant : variants(flags, checked, cut)) {
        const size_t expected = tools::expected_gradients(
                                    checked.folder, {flags.fp64(), false, variant.change.micro_batches, flags.snapped})
                                    .size();
        if (checked.folder.has_loss() && merged[next].compared_gradients < expected) {
          merged[next].failures.push_back(fmt::format("{} gradients were compared, the reference has {}",
                                                      merged[next].compared_gradients, expected));
        }
        ++next;
      }
    }
  }
  return merged;
}

// Returns the results of one transport in the order of printing.
Result<std::vector<tools::CheckResult>> run_all(const Flags& flags, const tools::Hardware& hardware,
                                                const std::string& transport, const std::vector<Case>& cases,
                                                const std::string& scratch) {
  if (runtime::find_transport(transport)->between_processes()) return run_processes(flags, transport, cases, scratch);
  std::vector<tools::CheckResult> results;
  for (size_t i = 0; i < cases.size(); ++i) {
    RANNC_ASSIGN(const auto of_folder, FolderRun(flags, hardware, cases[i], scratch, i).run(nullptr));
    results.insert(results.end(), of_folder.begin(), of_folder.end());
  }
  return results;
}

Result<void> check(const Flags& flags) {
  const bool over_nccl = !flags.workers.empty() && transport_of(flags).needs_nccl;
  tools::set_gpu_environment({.over_nccl = over_nccl, .on_streams = over_nccl || flags.workers.empty()});
  RANNC_ASSIGN(const tools::Hardware hardware, tools::open_hardware(flags.device));
  std::vector<Case> cases;
  for (const std::string& path : flags.folders) {
    RANNC_ASSIGN(cases.emplace_back().folder, tools::read_check_folder(path, flags.model));
  }
  if (!flags.workers.empty()) {
    RANNC_ASSIGN(auto worker, tools::read_worker_environment());
    if (!worker) return rannc::error("--workers is only for processes that rannc-check starts itself");
    RANNC_ASSIGN(worker->secret, tools::take_secret());
    tools::run_as_worker(*worker, [&] { return run_worker(flags, hardware, cases, *worker); });
    return {};
  }
  const tools::Scratch scratch;
  for (size_t i = 0; i < cases.size(); ++i) {
    RANNC_TRY(compile_case(flags, hardware.at(0), scratch.path(), i, cases[i]));
    for (const std::string& line : cases[i].not_done)
      fmt::print(stderr, "{}: not done: {}\n", cases[i].folder.model, line);
    for (const std::string& warning : cases[i].warnings)
      fmt::print(stderr, "{}: warning: {}\n", cases[i].folder.model, warning);
    for (const std::string& note : cases[i].conditions)
      fmt::print(stderr, "{}: note: {}\n", cases[i].folder.model, note);
  }
  tools::CheckPrinter printer(flags.summary == "json");
  for (const std::string& transport : flags.transports) {
    RANNC_ASSIGN(const auto results, run_all(flags, hardware, transport, cases, scratch.path()));
    size_t next = 0;
    for (const Case& checked : cases) {
      const std::string name = fs::path(checked.folder.path).filename().string();
      for (const Cut& cut : flags.cuts) {
        for (const Variant& variant : variants(flags, checked, cut))
          printer.line(name, checked.warnings, variant, transport, results.at(next++));
      }
    }
  }
  return printer.end();
}

constexpr uint64_t kMostStages = 64;  // and devices of each

std::optional<Cut> parse_cut(const std::string& text) {
  Cut cut;
  std::istringstream parts(text + ',');
  for (std::string part; std::getline(parts, part, ',');) {
    const auto count = rannc::parse_number(part, rannc::WholeRange{1, kMostStages});
    if (!count) return std::nullopt;
    cut.push_back(static_cast<uint32_t>(*count));
  }
  return cut.empty() ? std::nullopt : std::optional(cut);
}

std::string wrong_cut(const std::string& text) {
  return parse_cut(text)
             ? ""
             : "expected the number of devices of every stage, each from 1 to 64, as in 2,1; found '" + text + "'";
}

std::vector<Cut> cuts_of(const std::vector<uint32_t>& stages, const std::vector<std::string>& replicas) {
  std::vector<Cut> cuts;
  for (const uint32_t count : stages) cuts.emplace_back(count, 1);
  for (const std::string& text : replicas) cuts.push_back(*parse_cut(text));
  if (cuts.empty()) cuts.push_back({1, 1});
  return cuts;
}

}  // namespace

int rannc::tools::check_main(int argc, char** argv) {
  CLI::App app(
      "Runs one step of a model without update, and compares outputs, loss and every gradient with reference numbers.",
      "rannc-check");
  Flags flags;
  app.add_option("folder", flags.folders,
                 "folders with model.onnx, model.pt or model.pt2, batch.safetensors, reference.safetensors, card.json")
      ->required();
  app.add_option("--model", flags.model,
                 "file to check in each folder (default: model.onnx, else model.pt, else model.pt2); for "
                 "TorchScript, the card specifies inputs and outputs and the original module is the reference");
  std::vector<uint32_t> stages;
  std::vector<std::string> replicas;
  auto* const by_stages =
      app.add_option("--stages", stages, "numbers of stages to check, with one device per stage (default: 2)")
          ->delimiter(',')
          ->transform(tools::whole_number(1, kMostStages));
  app.add_option("--replicas", replicas,
                 "number of devices of each stage, such as 2,1; may be repeated for several cuts")
      ->allow_extra_args(false)
      ->check(wrong_cut)
      ->excludes(by_stages);
  app.add_option("--micro-batches", flags.micro_batches,
                 "numbers of micro-batches (default: 4, or 1 if the model's batch size is static)")
      ->delimiter(',')
      ->transform(tools::whole_number(1, 1U << 24));
  app.add_option("--schedule", flags.schedules, "gpipe, 1f1b …")->delimiter(',')->capture_default_str();
  app.add_option("--recompute", flags.recompute, "never, always, except-last")
      ->delimiter(',')
      ->check(CLI::IsMember({"never", "always", "except-last"}))
      ->capture_default_str();
  app.add_option("--transport", flags.transports, runtime::transport_summaries())
      ->delimiter(',')
      ->check(CLI::IsMember(runtime::transport_names()))
      ->capture_default_str();
  app.add_option("--engine", flags.engine, runtime::engine_summaries())->check(CLI::IsMember(runtime::engine_names()));
  app.add_option("--cxx", flags.cxx, "C++ compiler of --engine native");
  tools::add_device_flag(app, flags.device);
  app.add_option("--dtype", flags.dtype, "float64 or float32")
      ->check(CLI::IsMember({"float64", "float32"}))
      ->capture_default_str();
  app.add_flag(
      "--snap-constants", flags.snapped,
      "in float64, restore the exact values of constants that the file rounds to float32, and compare with the "
      "original module instead of the unmodified file");
  app.add_option("--least-share", flags.least_share, "fail if a stage has less than this share of the work")
      ->transform(tools::in_range(NumberRange{0, 1}));
  app.add_option("--summary", flags.summary, "json: one object per run")->check(CLI::IsMember({"json"}));
  app.add_option("--workers", flags.workers)->group("");
  tools::FlagTable table(app, compiler::kCheckFolder);
  tools::add_read_flags(table, flags.read, flags.passes);
  return tools::run_tool(app, argc, argv, [&]() -> Result<void> {
    runtime::set_threads(1);
    RANNC_TRY(tools::load_libraries(flags.read.libraries));
    flags.cuts = cuts_of(stages, replicas);
    return check(flags);
  });
}
