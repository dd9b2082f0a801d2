// rannc-compile: plans models and published profiles for a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/native_source.h"
#include "ir/base/output_lock.h"
#include "ir/base/replacement.h"
#include "ir/plan/functions.h"
#include "ir/text/text.h"
#include "passes/training/differentiate.h"
#include "rannc/compiler.h"
#include "runtime/train/process.h"
#include "tools/common/driver.h"
#include "tools/common/hardware.h"
#include "tools/common/how_to_train.h"
#include "tools/common/launcher.h"
#include "tools/common/libraries.h"
#include "tools/common/number_checks.h"
#include "tools/common/programs.h"
#include "tools/common/status_line.h"
#include "tools/common/stop.h"
#include "tools/compile/bundle_flags.h"
#include "tools/compile/compile_flags.h"
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

struct Flags {
  tools::CompileFlags compile;
  std::string output;
  std::string emit = "bundle";
  std::string summary;
  bool explain = false;
  std::string compared;  // `asynchronous`, or empty
  bool verbose = false;
  bool replace = false;
  bool refine = true;
  tools::FormFlags form;
  bool stage_onnx = false;
  std::string plan;     // file of a saved plan, taken instead of a search
  std::string bundle;   // whose plan `--emit stage-onnx` cuts at
  std::string rebuilt;  // bundle of --rebuild
  std::optional<uint64_t> profile_batch;
  bool exact = false;
  std::vector<std::string> libraries;
};

// Flags that apply to a published profile, besides what is required of its plan (`add_plan_flags`). All others are of
// models.
constexpr const char* kFlagsOfProfiles[] = {"model",     "--output",  "--emit",          "--summary",
                                            "--explain", "--replace", "--profile-batch", "--exact",
                                            "--help",    "--list",    "--plan"};
constexpr const char* kProfileFlags[] = {"--profile-batch", "--exact"};
// Flags that apply to a placement graph; the file specifies the rest.
constexpr const char* kSplitFlags[] = {"model",     "--output", "--emit",       "--summary", "--explain", "--replace",
                                       "--devices", "--memory", "--time-limit", "--exact",   "--help"};

// Flags about plans that apply to a saved plan, too.
constexpr const char* kFlagsOfSavedPlans[] = {"--cluster",          "--devices", "--memory",           "--recompute",
                                              "--recompute-budget", "--costs",   "--matmul-precision", "--help"};
// Besides, for plans of profiles, whose files do not contain them.
constexpr const char* kFlagsOfSavedProfilePlans[] = {"--mini-batch", "--optimizer", "--momentum", "--objective"};

tools::ProfileCommand profile_command(const Flags& flags) {
  tools::ProfileCommand command;
  command.file = flags.compile.model;
  command.profile_batch = flags.profile_batch;
  command.plan = flags.compile;
  command.saved = flags.plan;
  command.exact = flags.exact;
  command.emit = flags.emit == "bundle" ? "" : flags.emit;
  command.summary = flags.summary;
  command.output = flags.output;
  command.explain = flags.explain;
  command.replace = flags.replace;
  return command;
}

void refuse_without(const CLI::App& app, const std::string& flag, const char* why) {
  if (app.get_option(flag)->count() == 0) throw CLI::ValidationError(fmt::format("{} is missing: {}", flag, why));
}

// Rejects flags about what a saved plan decides, also with the values that are the default.
void check_plan_flags(const CLI::App& app, bool profile) {
  CLI::App demands;
  tools::CompileFlags unused;
  tools::add_model_plan_flags(demands, unused);
  for (const CLI::Option* option : demands.get_options()) {
    const auto is_option = [&](const char* flag) { return option->check_name(flag); };
    const bool applies =
        std::any_of(std::begin(kFlagsOfSavedPlans), std::end(kFlagsOfSavedPlans), is_option) ||
        (profile && std::any_of(std::begin(kFlagsOfSavedProfilePlans), std::end(kFlagsOfSavedProfilePlans), is_option));
    const std::string name = option->get_name();
    if (applies || app.get_option(name)->count() == 0) continue;
    throw CLI::ValidationError(
        fmt::format("{}: the plan of --plan decides; edit its file, or leave out the flag", name));
  }
}

// Rejects contradictory flags without reading any file. [usage]
void check(const CLI::App& app, Flags& flags) {
  if (!flags.rebuilt.empty()) return tools::check_rebuild_flags(app);
  if (flags.compile.model.empty()) throw CLI::RequiredError("model");
  if (tools::is_bundle(flags.compile.model)) tools::check_bundle_flags(app, flags.compile.model);
  const bool profile = tools::is_profile(flags.compile.model);
  const bool split = profile && std::filesystem::path(flags.compile.model).extension() == ".json";
  const auto refuse = [&](const std::string& flag, const char* what) {
    if (app.get_option(flag)->count() == 0) return;
    throw CLI::ValidationError(fmt::format("{}: {} is {}", flag, flags.compile.model, what));
  };
  if (profile) {
    CLI::App demands;
    tools::PlanFlags unused;
    tools::add_plan_flags(demands, unused);
    for (const CLI::Option* option : app.get_options()) {
      const bool applies = std::any_of(std::begin(kFlagsOfProfiles), std::end(kFlagsOfProfiles),
                                       [&](const char* flag) { return option->check_name(flag); });
      if (!applies && demands.get_option_no_throw(option->get_name()) == nullptr) {
        refuse(option->get_name(), "a profile, not a model");
      }
    }
    if (app.get_option("--emit")->count() > 0 && flags.emit == "bundle")
      refuse("--emit", "a profile, which has no bundle");
  } else {
    for (const char* flag : kProfileFlags) refuse(flag, "not a profile");
  }
  for (const CLI::Option* option : app.get_options()) {
    const bool respected = std::any_of(std::begin(kSplitFlags), std::end(kSplitFlags),
                                       [&](const char* flag) { return option->check_name(flag); });
    if (split && !respected) refuse(option->get_name(), "a placement graph, which specifies this itself");
  }
  if (!flags.plan.empty()) check_plan_flags(app, profile);
  if (flags.emit == "onnx") {
    refuse_without(app, "--weights", "--emit onnx writes a copy of the model with other weights");
    refuse_without(app, "--output", "--emit onnx does not overwrite the model");
    if (std::filesystem::path(flags.compile.model).extension() == ".rir") refuse("--emit", "not an ONNX file");
  }
  if (flags.emit == "stage-onnx") {
    refuse_without(app, "--bundle", "--emit stage-onnx cuts the model at the plan of a bundle");
    refuse_without(app, "--output", "--emit stage-onnx writes a folder");
  } else if (!flags.bundle.empty()) {
    throw CLI::ValidationError("--bundle requires --emit stage-onnx");
  }
  if (flags.stage_onnx && flags.emit != "bundle")
    throw CLI::ValidationError("--stage-onnx adds files to a bundle; --emit " + flags.emit + " writes none");
  if (const auto checked = tools::check_plan_flags(flags.compile); !checked.ok()) {
    throw CLI::ValidationError(checked.diagnostic().message);
  }
  if (!profile) return;
  if (const auto checked = tools::check_profile_command(profile_command(flags)); !checked.ok()) {
    throw CLI::ValidationError(checked.diagnostic().message);
  }
}

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
      return rannc::error({flags.compile.model, 0, 0, {}}, "there is no loss to differentiate")
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
  RANNC_ASSIGN(const tools::ModelOptions options, tools::model_options(flags.compile));
  RANNC_ASSIGN(const std::vector<std::string> lines, tools::copy_with_weights(options, flags.output, flags.replace));
  for (const std::string& line : lines) fmt::print(stderr, "{}\n", line);
  fmt::print("wrote {}\n", flags.output);
  return {};
}

// Needs only the bundle, the model's file and its weights.
Result<void> emit_stages(const Flags& flags) {
  RANNC_ASSIGN(const tools::ModelOptions options, tools::model_options(flags.compile));
  RANNC_ASSIGN(const tools::StageModelLines lines,
               tools::write_stages_of_bundle(options, flags.bundle, flags.output, flags.replace));
  for (const std::string& line : lines.weights) fmt::print(stderr, "{}\n", line);
  for (const std::string& line : lines.cut) fmt::print(stderr, "remark: {}\n", line);
  fmt::print("wrote {}\n", flags.output);
  return {};
}

Result<compiler::Model> read_bundle(const CLI::App& app, Flags& flags, Watcher& watcher) {
  auto model = compiler::read_bundle(flags.compile.model, flags.libraries, watcher.progress());
  watcher.end();
  if (!model.ok()) return model;
  RANNC_TRY(tools::complete_flags(*model->state().bundle, app, flags.compile, flags.form));
  return model;
}

Result<compiler::Model> read_model(const CLI::App& app, Flags& flags, Watcher& watcher) {
  if (tools::is_bundle(flags.compile.model)) return read_bundle(app, flags, watcher);
  RANNC_ASSIGN(compiler::ReadOptions options, tools::read_options(flags.compile));
  options.libraries = flags.libraries;
  auto model = compiler::read(flags.compile.model, options, watcher.progress());
  watcher.end();
  if (!model.ok()) return model;
  if (flags.compile.time_passes) fmt::print(stderr, "{}", model->state().prepared.report.time_table());
  return model;
}

Result<compiler::Plan> plan_model(const Flags& flags, const compiler::Model& model, const compiler::Programs& programs,
                                  Watcher& watcher) {
  RANNC_ASSIGN(compiler::PlanOptions options, tools::model_plan_options(flags.compile));
  options.plan = flags.plan;
  options.cuda_plugin = tools::cuda_plugin();
  options.refine = flags.refine && flags.emit == "bundle";
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

Result<void> emit_source(const Flags& flags, const rannc::ir::Plan& plan) {
  std::string text;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    RANNC_ASSIGN(const std::string source,
                 rannc::codegen::native_source(plan, rannc::StageId::from(s), {.loops = flags.compile.loops}));
    text += source;
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
  if (flags.emit == "source") return emit_source(flags, planned);
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
    text = tools::explain(plan.planned, plan.options, plan.search);
    watcher.status.clear();
  }
  text += comparison;
  // Machine-readable output is alone on standard output.
  fmt::print(flags.summary == "json" || flags.emit != "bundle" ? stderr : stdout, "{}", text);
}

Result<void> compile(const CLI::App& app, Flags& flags) {
  if (flags.stage_onnx) RANNC_TRY(tools::check_onnx(flags.compile.model));
  const std::string output = flags.output.empty() ? default_output(flags.compile.model) : flags.output;
  rannc::OutputLock lock;
  if (flags.emit == "bundle") {
    RANNC_ASSIGN(lock, rannc::OutputLock::take_beside(output, "rannc-compile"));
  }
  Watcher watcher;
  RANNC_ASSIGN(const compiler::Model model, read_model(app, flags, watcher));
  const tools::PreparedModel& prepared = model.state().prepared;
  if (flags.emit == "graph" || flags.emit == "atoms" || flags.emit == "backward") return emit_graph(flags, prepared);
  const tools::Detail detail = flags.verbose ? tools::Detail::kAll : tools::Detail::kBrief;
  fmt::print(stderr, "{}", tools::model_report(prepared, flags.compile.model, detail));
  RANNC_ASSIGN(const std::string calls, Result<std::string>(model.state().foreign_calls));
  fmt::print(stderr, "{}", calls);
  compiler::Programs programs;
  if (flags.emit == "bundle") {
    RANNC_ASSIGN(programs, tools::programs_of(flags.form, flags.compile.loops));
  }
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
  app.add_option(
      "model", flags.compile.model,
      "ONNX, TorchScript (.pt) or torch.export (.pt2) file, a graph as text (.rir), a bundle to plan again, a "
      "profile of PipeDream (.txt) or a placement graph (.json)");
  app.add_option(
      "-o,--output", flags.output,
      "bundle to write (default: the model's name with .rannc), or file for the output of --emit; for a profile: plan "
      "(.json) or staged profile (.txt)");
  app.add_option("--emit", flags.emit,
                 "stop and print: graph, atoms, backward, blocks, plan, schedule, functions or source (C++ of the "
                 "stages); onnx: write a copy of "
                 "the model with "
                 "the values of --weights; stage-onnx: write a folder with an ONNX file per stage of --bundle")
      ->check(CLI::IsMember({"graph", "atoms", "backward", "blocks", "plan", "schedule", "functions", "source",
                             "bundle", "onnx", "stage-onnx"}))
      ->capture_default_str();
  app.add_option("--summary", flags.summary, "json: plan, objective, bound and gap on one line")
      ->check(CLI::IsMember({"json"}));
  app.add_flag("--explain", flags.explain, "explain why this plan was chosen and why others lost");
  app.add_option(
         "--compare", flags.compared,
         "asynchronous: simulate what PipeDream and PipeDream-2BW would buy with the stages of the plan, at what "
         "staleness and memory")
      ->check(CLI::IsMember({"asynchronous"}));
  app.add_flag("--verbose", flags.verbose,
               "report everything that was recovered or changed in a model, with its location");
  app.add_flag("--replace", flags.replace, "overwrite an existing output");
  app.add_flag("--refine,!--no-refine", flags.refine, "measure the finished stages to predict the step time");
  app.add_flag("--stage-onnx", flags.stage_onnx, "also write each stage as an ONNX file, cut from the model's file");
  app.add_option("--bundle", flags.bundle, "bundle at whose plan --emit stage-onnx cuts the model");
  app.add_option("--rebuild", flags.rebuilt,
                 "compile the stages of this bundle of form native again if they are stale");
  app.add_option("--profile-batch", flags.profile_batch,
                 "number of samples at which a profile was measured (default: pbs-N in its name)")
      ->transform(tools::whole_number(1, 1U << 24));
  app.add_flag("--exact", flags.exact, "placement graphs: search until the gap is closed");
  tools::add_form_flags(app, flags.form);
  tools::add_list_flag(app);
  tools::add_library_flag(app, flags.libraries);
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
  tools::add_model_flags(app, flags.compile);
  tools::add_model_plan_flags(app, flags.compile);
  app.option_defaults()->group("Demands on the plan");
  app.add_option("--plan", flags.plan,
                 "file of --emit plan, perhaps edited by hand: take this plan instead of searching for one")
      ->check(CLI::ExistingFile);
  app.final_callback([&] { check(app, flags); });
  return tools::run_tool(app, argc, argv, [&]() -> Result<void> {
    if (!flags.rebuilt.empty()) return tools::rebuild(flags.rebuilt, flags.form.cxx, flags.libraries);
    if (tools::is_profile(flags.compile.model)) return tools::run_profile_command(profile_command(flags));
    compiler::keep_freed_memory();
    rannc::runtime::set_threads(1);
    if (flags.emit == "onnx") return emit_onnx(flags);
    return flags.emit == "stage-onnx" ? emit_stages(flags) : compile(app, flags);
  });
}
