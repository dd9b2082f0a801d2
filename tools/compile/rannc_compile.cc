// rannc-compile: plans models and published profiles for a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/native_source.h"
#include "ir/base/output_lock.h"
#include "ir/base/replacement.h"
#include "ir/plan/functions.h"
#include "ir/program/program_text.h"
#include "ir/text/text.h"
#include "passes/training/differentiate.h"
#include "rannc/compiler.h"
#include "runtime/train/process.h"
#include "tools/common/driver.h"
#include "tools/common/hardware.h"
#include "tools/common/how_to_train.h"
#include "tools/common/launcher.h"
#include "tools/common/programs.h"
#include "tools/common/status_line.h"
#include "tools/common/stop.h"
#include "tools/compile/compile_command.h"
#include "tools/compile/explain.h"
#include "tools/compile/listing.h"
#include "tools/compile/native_form.h"
#include "tools/compile/profile_command.h"
#include "tools/compile/rebuild_command.h"
#include "tools/compile/stage_report.h"
#include "tools/compiler/compiled.h"
#include "tools/compiler/model_report.h"
#include "tools/compiler/stage_models.h"

namespace {

using rannc::Result;
using rannc::partition::PlannedModel;
namespace compiler = rannc::compiler;
namespace tools = rannc::tools;

using Flags = tools::CompileCommand;

std::string default_output(const std::string& model) {
  return std::filesystem::path(model).replace_extension(".rannc").string();
}

/// Shows the progress of a compilation. Ctrl-C stops the search of a plan, else the program.
class Watcher {
 public:
  compiler::Progress progress() {
    compiler::Progress progress;
    progress.phase = [this](compiler::Phase phase) { begin(phase); };
    progress.graph = [this](std::string_view pass, const std::string& text) {
      status.clear();
      fmt::print("// after {}\n{}\n", pass, text);
    };
    progress.remark = [this](const std::string& text) {
      status.clear();
      fmt::print(stderr, "remark: {}\n", text);
    };
    progress.note = [this](const std::string& text) {
      status.clear();
      fmt::print(stderr, "note: {}\n", text);
    };
    progress.step = [this](const std::string& text) { status.show(text); };
    progress.stop = stop_.get_token();
    return progress;
  }
  /// Ends what the last phase shows.
  void end() {
    interrupt_.reset();
    status.clear();
  }

  tools::StatusLine status;

 private:
  void begin(compiler::Phase phase) {
    end();
    if (phase == compiler::Phase::kReading) status.show("reading the model");
    if (phase == compiler::Phase::kWriting) status.show("writing the bundle");
    if (phase != compiler::Phase::kSearching) return;
    status.show("searching for a plan; Ctrl-C continues with the best so far");
    interrupt_.emplace(stop_);
  }

  std::stop_source stop_;
  std::optional<tools::InterruptStop> interrupt_;
};

// Writes the output of --emit to the file of -o, else to standard output without anything else.
Result<void> emit(const Flags& flags, const std::string& text) {
  if (flags.output.empty()) {
    fmt::print("{}", text);
    return {};
  }
  if (!flags.replace && std::filesystem::exists(flags.output) && !rannc::is_stream(flags.output))
    return rannc::error({flags.output, 0, 0, {}}, "exists already; use --replace to overwrite it");
  return rannc::write_file(flags.output, text);
}

Result<void> emit_graph(const Flags& flags, const tools::PreparedModel& model) {
  if (flags.emit == "backward") {
    if (model.graph.losses().empty()) {
      return rannc::error({flags.model, 0, 0, {}}, "there is no loss to differentiate")
          .note("specify one, such as --loss 'cross_entropy(output=NAME)'");
    }
    RANNC_ASSIGN(const rannc::ir::Joint joint, rannc::passes::differentiate(model.graph));
    return emit(flags, rannc::ir::print(joint));
  }
  return emit(flags,
              flags.emit == "graph" ? rannc::ir::print(model.graph) : rannc::ir::print(model.atoms, model.graph));
}

// Needs only the model's file and its weights, no plan.
Result<void> emit_onnx(const Flags& flags) {
  RANNC_ASSIGN(const std::vector<std::string> lines,
               tools::copy_with_weights(flags.model, flags.read, flags.output, flags.replace));
  for (const std::string& line : lines) fmt::print(stderr, "{}\n", line);
  fmt::print("wrote {}\n", flags.output);
  return {};
}

// Needs only the bundle, the model's file and its weights.
Result<void> emit_stages(const Flags& flags) {
  RANNC_ASSIGN(const tools::StageModelLines lines,
               tools::write_stages_of_bundle(flags.model, flags.read, flags.bundle, flags.output, flags.replace));
  for (const std::string& line : lines.weights) fmt::print(stderr, "{}\n", line);
  for (const std::string& line : lines.cut) fmt::print(stderr, "remark: {}\n", line);
  fmt::print("wrote {}\n", flags.output);
  return {};
}

bool is_local_worker(const rannc::ir::PlanDevice& device) {
  const rannc::partition::Cluster local = rannc::partition::preset_cluster("local:1").value();
  return device.type == rannc::ir::DeviceType::kCpu && device.kind == local.kinds.front().name;
}

// The least number of this machine's workers with all names of the bundle's devices. Names have gaps after a loss.
uint32_t workers_of(const tools::PlannedBundle& bundle) {
  const auto count = static_cast<uint32_t>(bundle.devices.size());
  for (uint32_t workers = count; workers < 2 * count + 64; ++workers) {
    const auto local = rannc::partition::preset_cluster(fmt::format("local:{}", workers)).value();
    const bool all = std::all_of(bundle.devices.begin(), bundle.devices.end(), [&](const auto& own) {
      return std::any_of(local.devices.begin(), local.devices.end(),
                         [&](const auto& device) { return device.name == own.name; });
    });
    if (all) return workers;
  }
  return count;
}

// Sets what the bundle decides unless flags do: the form, and a cluster of this machine's workers.
Result<void> complete(const tools::PlannedBundle& bundle, const CLI::App& app, Flags& flags) {
  if (app.count("--form") == 0) {
    const bool native = bundle.form == rannc::runtime::BundleForm::kNative;
    flags.form.form = native ? rannc::compiler::Form::kNative : rannc::compiler::Form::kInterpreted;
  }
  flags.passes.loops = bundle.loops;
  if (app.count("--cluster") > 0) return {};
  for (const rannc::ir::PlanDevice& device : bundle.devices) {
    if (is_local_worker(device)) continue;
    return rannc::error({.file = flags.model},
                        fmt::format("was planned for {} ({}), not for workers of this machine: specify --cluster",
                                    device.name, device.kind));
  }
  const uint32_t workers = flags.plan.lost.empty() ? static_cast<uint32_t>(bundle.devices.size()) : workers_of(bundle);
  flags.plan.cluster = fmt::format("local:{}", flags.plan.devices.value_or(workers));
  return {};
}

Result<compiler::Model> read_model(const CLI::App& app, Flags& flags, Watcher& watcher) {
  const bool bundle = tools::is_bundle(flags.model);
  auto model = bundle ? compiler::read_bundle(flags.model, flags.read.libraries, watcher.progress())
                      : compiler::read(flags.model, flags.read, watcher.progress());
  watcher.end();
  if (!model.ok()) return model;
  if (bundle) RANNC_TRY(complete(*model->state().bundle, app, flags));
  if (flags.passes.time_passes) fmt::print(stderr, "{}", model->state().prepared.report.time_table());
  return model;
}

Result<compiler::Plan> plan_model(const Flags& flags, const compiler::Model& model, const compiler::Programs& programs,
                                  Watcher& watcher) {
  compiler::PlanOptions options = flags.plan;
  options.cuda_plugin = tools::cuda_plugin();
  options.refine = options.refine && flags.emit == "bundle";
  options.programs = programs;
  auto plan = compiler::plan(model, options, watcher.progress());
  watcher.end();
  if (!plan.ok()) return plan;
  tools::print_warnings(plan->facts().warnings);  // the model report has the other warnings
  for (const std::string& remark : plan->facts().remarks) fmt::print(stderr, "remark: {}\n", remark);
  return plan;
}

Result<void> emit_functions(const Flags& flags, const rannc::ir::Plan& plan) {
  std::string text;
  for (size_t s = 0; s < plan.functions.size(); ++s) text += rannc::ir::print_functions(*plan.functions[s], s);
  return emit(flags, text);
}

/// Prints what the stages run: their programs, or these as C++. Only compiled programs have loops.
Result<void> emit_programs(const Flags& flags, const rannc::ir::Plan& plan) {
  const bool source = flags.emit == "source";
  const rannc::codegen::NativeOptions options{.loops = flags.passes.loops &&
                                                       (source || flags.form.form == rannc::compiler::Form::kNative)};
  std::string text = source ? "" : rannc::ir::programs_head();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto stage = rannc::StageId::from(s);
    RANNC_ASSIGN(const std::string of_stage, source ? rannc::codegen::native_source(plan, stage, options)
                                                    : rannc::codegen::program_text(plan, stage, options));
    text += of_stage;
  }
  return emit(flags, text);
}

Result<void> write(const Flags& flags, const compiler::Plan& plan, const compiler::Programs& programs,
                   const std::string& output, Watcher& watcher) {
  compiler::WriteOptions options{.replace = flags.replace, .programs = programs, .stage_onnx = flags.stage_onnx};
  options.stage_program = tools::program_beside("rannc-stage");
  const Result<void> written = compiler::write(plan, output, options, watcher.progress());
  watcher.end();
  return written;
}

Result<void> emit_plan(const Flags& flags, const compiler::Plan& plan) {
  const rannc::ir::Plan& planned = plan.state().planned.plan;
  if (flags.emit == "functions") return emit_functions(flags, planned);
  if (flags.emit == "source" || flags.emit == "programs") return emit_programs(flags, planned);
  if (flags.emit == "plan") return emit(flags, plan.text());
  return emit(flags, rannc::ir::print_schedule(planned.schedule));
}

void summarize(const Flags& flags, const compiler::Plan::State& plan, const std::string& comparison, Watcher& watcher) {
  if (flags.summary == "json") {
    fmt::print("{}\n", tools::summary_json(plan.planned, plan.search).dump());
  } else if (flags.emit == "bundle") {
    fmt::print("{}", tools::summary_text(plan.planned, plan.search));
  }
  std::string text;
  if (flags.explain) {
    watcher.status.show("looking for improvements");
    text = tools::explain(plan.planned, plan.options, plan.search, plan.modules);
    watcher.status.clear();
  }
  text += comparison;
  // Machine-readable output is alone on standard output.
  fmt::print(flags.summary == "json" || flags.emit != "bundle" ? stderr : stdout, "{}", text);
}

Result<void> compile(const CLI::App& app, Flags& flags) {
  if (flags.stage_onnx) RANNC_TRY(tools::check_onnx(flags.model));
  const std::string output = flags.output.empty() ? default_output(flags.model) : flags.output;
  rannc::OutputLock lock;
  if (flags.emit == "bundle") {
    RANNC_ASSIGN(lock, rannc::OutputLock::take_beside(output, "rannc-compile"));
  }
  Watcher watcher;
  RANNC_ASSIGN(const compiler::Model model, read_model(app, flags, watcher));
  const tools::PreparedModel& prepared = model.state().prepared;
  if (flags.emit == "graph" || flags.emit == "atoms" || flags.emit == "backward") return emit_graph(flags, prepared);
  const tools::Detail detail = flags.verbose ? tools::Detail::kAll : tools::Detail::kBrief;
  fmt::print(stderr, "{}", tools::model_report(prepared, flags.model, detail));
  RANNC_ASSIGN(const std::string calls, Result<std::string>(model.state().foreign_calls));
  fmt::print(stderr, "{}", calls);
  RANNC_ASSIGN(const compiler::Programs programs, tools::programs_of(flags.form, flags.passes.loops));
  RANNC_ASSIGN(const compiler::Plan plan, plan_model(flags, model, programs, watcher));
  const PlannedModel& planned = plan.state().planned;
  if (flags.emit == "blocks") return emit(flags, tools::print_blocks(planned));
  std::string comparison;
  if (!flags.compared.empty()) {
    RANNC_ASSIGN(comparison, tools::asynchronous_text(planned.plan, plan.state().options.cluster));
  }
  RANNC_TRY(flags.emit == "bundle" ? write(flags, plan, programs, output, watcher) : emit_plan(flags, plan));
  summarize(flags, plan.state(), comparison, watcher);
  if (flags.emit != "bundle" || flags.summary == "json") return {};
  fmt::print("wrote {}\n", output);
  if (!planned.plan.training) {
    fmt::print("the bundle has no loss: `rannc-run {} --data FILE.safetensors` evaluates it; {}\n", output,
               tools::how_to_train(planned.plan));
  }
  return {};
}

}  // namespace

int rannc::tools::compile_main(int argc, char** argv) {
  CLI::App app("Plans a model for a cluster and writes a bundle for rannc-run, or plans a published profile.",
               "rannc-compile");
  Flags flags;
  tools::add_list_flag(app);
  flags.read.reproducer = "rannc-reproducer.rir";
  tools::FlagTable table(app, compiler::kModelFile | compiler::kBundleFolder | compiler::kProfileText |
                                  compiler::kPlacementGraph | compiler::kRebuiltBundle);
  tools::add_compile_flags(table, flags);
  app.footer(
      "Examples:\n"
      "  rannc-compile model.onnx --loss cross_entropy(output=logits,labels=y) --cluster local:2\n"
      "  rannc-compile model.pt --input tokens=i64[batch,128] --output-name logits --loss "
      "cross_entropy(output=logits,labels=y)\n"
      "  rannc-compile model.onnx --cluster rannc-4x8 --mini-batch 256 --costs analytic --explain\n"
      "  rannc-compile model.onnx --emit plan -o plan.rir && rannc-compile model.onnx --plan plan.rir\n"
      "  rannc-compile model.rannc --devices 1 -o smaller.rannc\n"
      "  rannc-compile model.onnx --weights trained.safetensors --emit onnx -o trained.onnx\n"
      "  rannc-compile profile-pbs-32.txt --cluster dapple-c --mini-batch 2048");
  app.final_callback([&] {
    flags.read.mini_batch = flags.plan.mini_batch;
    tools::check_command(table, flags);
  });
  return tools::run_tool(app, argc, argv, [&]() -> Result<void> {
    if (!flags.rebuilt.empty()) return tools::rebuild(flags.rebuilt, flags.form.cxx, flags.read.libraries);
    if (tools::is_profile(flags.model)) return tools::run_profile_command(flags);
    compiler::keep_freed_memory();
    rannc::runtime::set_threads(1);
    if (flags.emit == "onnx") return emit_onnx(flags);
    return flags.emit == "stage-onnx" ? emit_stages(flags) : compile(app, flags);
  });
}
