// rannc-run: trains or evaluates a bundle with the workers of this machine, or as one worker of a launcher.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ir/base/replacement.h"
#include "ir/base/stopwatch.h"
#include "ir/plan/functions.h"
#include "runtime/engine/engine.h"
#include "runtime/execute/trace.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/process.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/transports.h"
#include "tools/common/driver.h"
#include "tools/common/hardware.h"
#include "tools/common/how_to_train.h"
#include "tools/common/launcher.h"
#include "tools/common/libraries.h"
#include "tools/common/programs.h"
#include "tools/common/run_signals.h"
#include "tools/common/worker_environment.h"
#include "tools/measure/memory_gauge.h"
#include "tools/measure/step_profile.h"
#include "tools/run/evaluate_run.h"
#include "tools/run/loss_log.h"
#include "tools/run/profile_report.h"
#include "tools/run/progress.h"
#include "tools/run/run_data.h"
#include "tools/run/run_folder.h"
#include "tools/run/run_report.h"
#include "tools/run/run_settings.h"
#include "tools/run/run_weights.h"
#include "tools/run/run_worker.h"

namespace {

namespace fs = std::filesystem;
namespace runtime = rannc::runtime;
namespace tools = rannc::tools;
using rannc::Result;

struct Flags {
  std::string bundle;
  std::string output;
  std::vector<std::string> text;
  std::string data;
  uint64_t steps = 100;
  std::string transport;  // empty: determined by the environment
  std::string engine;     // empty: the default
  std::string device;     // empty: the type of the plan's devices
  bool cuda_graphs = true;
  std::string matmul_precision = "highest";
  bool deterministic = false;
  uint32_t threads = 1;
  tools::SettingFlags settings;
  uint64_t checkpoint_every = 0;
  bool resume = false, replace = false;
  bool profile = false;
  bool evaluate = false;  // implied for a bundle without a loss
  uint32_t timeout_seconds = 60;
  std::string loss_log;
  tools::WeightFlags weights;
  std::vector<std::string> libraries;
};

std::string output_folder(const Flags& flags) {
  return flags.output.empty() ? fs::path(flags.bundle).replace_extension(".run").string() : flags.output;
}

// Files that a worker passes to worker 0.
fs::path records_file(const fs::path& folder, uint32_t rank) { return folder / fmt::format(".records-{}", rank); }
fs::path profile_file(const fs::path& folder, uint32_t rank) { return folder / fmt::format(".profile-{}", rank); }
fs::path memory_file(const fs::path& folder, uint32_t rank) { return folder / fmt::format(".memory-{}", rank); }

// Reads and removes the file `path`.
std::string take_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::error_code ignored;
  fs::remove(path, ignored);
  return text.str();
}

tools::RunFolderUse use_of(const Flags& flags) {
  if (flags.resume) return tools::RunFolderUse::kResume;
  return flags.replace ? tools::RunFolderUse::kReplace : tools::RunFolderUse::kNew;
}

/// Facts that are determined before training.
struct Start {
  std::string checkpoint;  // empty: the bundle's weights
  uint64_t step = 0;
  tools::SettingsFound found;
  bool evaluates = false;
  uint32_t devices = 0;
  std::shared_ptr<const runtime::Bundle> bundle;
};

/// Checks the command line and the folder before any worker waits for another.
Result<Start> prepare(const Flags& flags, const std::optional<tools::WorkerEnvironment>& worker) {
  Start start;
  RANNC_ASSIGN(runtime::Bundle opened, runtime::open_bundle(flags.bundle));
  start.bundle = std::make_shared<const runtime::Bundle>(std::move(opened));
  const runtime::Bundle& bundle = *start.bundle;
  RANNC_TRY(runtime::load_libraries(bundle, flags.libraries));
  start.devices = static_cast<uint32_t>(bundle.plan.devices.size());
  if (worker && worker->workers != start.devices) {
    return rannc::error({flags.bundle, 0, 0, {}}, fmt::format("the plan is for {} devices, {} started {} workers",
                                                              start.devices, worker->launcher, worker->workers));
  }
  start.evaluates = flags.evaluate || !bundle.plan.training;
  if (flags.profile && start.evaluates)
    return rannc::error("--profile: nothing is trained, but it profiles training steps");
  tools::WeightFlags weights = flags.weights;
  if (flags.resume) weights.from.clear();
  RANNC_TRY(tools::check_weight_flags(weights, bundle));
  if (start.evaluates && !weights.from.empty() && !weights.to.empty())
    return rannc::error("--export-weights: nothing is trained, and the weights of --weights are in a file already");
  const fs::path folder = output_folder(flags);
  const bool runs = !flags.text.empty() || !flags.data.empty();
  if (flags.resume || (runs && !start.evaluates)) RANNC_TRY(tools::check_run_folder(folder, use_of(flags)));
  std::optional<runtime::CheckpointState> state;
  if (flags.resume) {
    start.checkpoint = runtime::latest_checkpoint(tools::checkpoints_of(folder).string());
    RANNC_ASSIGN(state, runtime::read_checkpoint_state(start.checkpoint));
    start.step = state->step;
  }
  if (flags.profile && flags.steps < start.step + tools::StepProfile::kLeastSteps) {
    return rannc::error(fmt::format("--profile requires --steps {} or more, found {}{}; the first {} do not count",
                                    start.step + tools::StepProfile::kLeastSteps, flags.steps,
                                    start.step > 0 ? fmt::format(", {} of which are done", start.step) : "",
                                    tools::StepProfile::kWarmUp));
  }
  RANNC_ASSIGN(start.found,
               tools::find_settings(flags.settings, bundle.plan.optimizer, state ? &state->settings : nullptr));
  return start;
}

/// Runs one process's part of a run.
class Run {
 public:
  Run(const Flags& flags, const runtime::TransportKind& transport, std::optional<tools::WorkerEnvironment> worker,
      std::string command)
      : flags_(flags), transport_(transport), worker_(std::move(worker)), command_(std::move(command)) {}

  Result<void> run() {
    const bool leads = !worker_ || worker_->rank == 0;
    const bool launched = worker_ && worker_->report_pipe >= 0;  // then the launcher reports and ends this process
    RANNC_ASSIGN(start_, prepare(flags_, worker_));
    if (flags_.deterministic) {
      setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // cuBLAS reads it when it is first used
      runtime::use_deterministic_kernels();
    }
    RANNC_ASSIGN(hardware_, tools::open_hardware(flags_.device, rannc::ir::device_type(start_.bundle->plan)));
    if (flags_.matmul_precision == "high") runtime::set_product_precision(runtime::ProductPrecision::kHigh);
    if (leads && !hardware_.note.empty()) fmt::print(stderr, "note: {}\n", hardware_.note);
    if (start_.evaluates) {
      RANNC_TRY(open());
      RANNC_TRY(evaluate());
      return leads ? tools::give_weights(*start_.bundle, start_.checkpoint, flags_.weights) : Result<void>();
    }
    const tools::RunSignals signals({.announces = leads && !launched, .second_ends = !launched});
    RANNC_TRY(open());
    RANNC_TRY(open_training());
    tools::Progress progress(leads, flags_.steps);
    const rannc::Stopwatch watch;
    for (uint64_t step = trainer_->steps_done(); step < flags_.steps; step = trainer_->steps_done()) {
      RANNC_ASSIGN(const runtime::Batch batch, data_->batch(step));
      if (profile_) profile_->begin_step();
      RANNC_ASSIGN(const runtime::StepResult result, trainer_->step(batch));
      if (profile_) profile_->end_step();
      losses_.push_back(result.loss);
      if (losses_.size() == 1) restart_peak();  // the first step is not representative
      progress.step(step + 1, result.loss, tools::tokens_per_step(trainer_->plan()), trainer_->plan().mini_batch);
      for (tools::LossLog& log : logs_) RANNC_TRY(log.add(step, result.loss));
      if (flags_.checkpoint_every > 0 && (step + 1) % flags_.checkpoint_every == 0 && step + 1 < flags_.steps)
        RANNC_TRY(save(step + 1));
      // A request to one worker ends all workers after the same step.
      RANNC_ASSIGN(const bool goes_on, trainer_->all_agree(signals.asked() == 0));
      if (!goes_on) break;
    }
    seconds_ = watch.seconds();
    progress.end();
    RANNC_TRY(finish(leads));
    if (trainer_->steps_done() >= flags_.steps) return {};
    if (leads) say_how_to_go_on();
    throw tools::Exit{tools::exit_of(signals.asked() != 0 ? signals.asked() : SIGTERM)};
  }

 private:
  Result<void> open() {
    const runtime::TrainingSettings& settings = start_.found.settings;
    runtime::TrainerOptions options{
        .optimizer = settings.optimizer, .clip_norm = settings.clip_norm, .seed = settings.seed};
    options.observer = &recorder_;
    options.engine = flags_.engine;
    options.records_steps = flags_.cuda_graphs;
    if (flags_.profile) {
      profile_ = std::make_unique<tools::StepProfile>(start_.bundle->plan, recorder_);
      options.observer = profile_.get();
      options.origins = runtime::Origins::kKept;
    }
    options.timeout = std::chrono::seconds(flags_.timeout_seconds);
    if (worker_) {
      RANNC_ASSIGN(auto transport, transport_.join({.host = worker_->master_address,
                                                    .port = worker_->master_port,
                                                    .rank = worker_->rank,
                                                    .workers = worker_->workers,
                                                    .listening_socket = worker_->listening_socket,
                                                    .torch_store = worker_->torch_store,
                                                    .torch_round = worker_->torch_round,
                                                    .timeout = options.timeout,
                                                    .pairs = runtime::message_pairs(start_.bundle->plan)},
                                                   hardware_.at(worker_->local_rank)));
      RANNC_ASSIGN(trainer_, runtime::Trainer::open_worker(flags_.bundle, options, std::move(transport)));
    } else {
      options.transport = transport_.name;
      options.hardware = hardware_.all();
      RANNC_ASSIGN(trainer_, runtime::Trainer::open(flags_.bundle, options));
    }
    folder_ = output_folder(flags_);
    if (start_.checkpoint.empty()) {
      return tools::take_weights(*trainer_, flags_.weights, !worker_ || worker_->rank == 0);
    }
    RANNC_ASSIGN(const std::string ignored, trainer_->load(start_.checkpoint, runtime::Trainer::Settings::kOfOptions));
    return {};
  }

  Result<void> evaluate() {
    if (flags_.data.empty()) {
      const char* why =
          trainer_->plan().training ? "--evaluate evaluates the samples of a file" : "the bundle has no loss";
      return rannc::error(fmt::format("{}: give --data, not --text; {}", why, tools::how_to_train(trainer_->plan())));
    }
    tools::EvaluationRun run{.bundle = flags_.bundle, .data = flags_.data, .folder = folder_};
    if (worker_) run.rank = worker_->rank, run.workers = worker_->workers;
    return tools::evaluate_run(*trainer_, run);
  }

  // A loaded checkpoint provides the seed, so the run continues with the same text.
  Result<void> open_training() {
    const uint64_t before = tools::MemoryGauge::live_bytes();
    RANNC_ASSIGN(data_, tools::open_data(flags_.data, flags_.text, trainer_->plan(), trainer_->seed()));
    data_bytes_ = tools::MemoryGauge::live_bytes() - before;
    const bool leads = !worker_ || worker_->rank == 0;
    RANNC_TRY(tools::prepare_run_folder(folder_, leads ? use_of(flags_) : tools::RunFolderUse::kResume));
    if (!leads) return {};
    for (const std::string& path : {(folder_ / tools::kLossesFile).string(), flags_.loss_log}) {
      if (path.empty()) continue;
      RANNC_ASSIGN(tools::LossLog log, tools::LossLog::open(path, trainer_->steps_done()));
      logs_.push_back(std::move(log));
    }
    say_what_begins();
    return {};
  }

  void say_what_begins() const {
    fmt::print("training {} on {}\n", flags_.bundle, data_->describe());
    fmt::print("{}{}\n", start_.checkpoint.empty() ? "" : fmt::format("resuming after step {} with ", start_.step),
               tools::describe(start_.found.settings));
    for (const std::string& change : start_.found.changed) fmt::print("changed by a flag: {}\n", change);
    const uint32_t states = start_.found.settings.optimizer.states(), planned = trainer_->plan().optimizer_states;
    if (states > planned) {
      fmt::print(stderr,
                 "warning: the optimizer keeps {} copies of the parameters, but the plan reserves memory for {}\n",
                 states, planned);
    }
    const auto& functions = trainer_->plan().functions;
    if (flags_.engine == "autograd" && std::any_of(functions.begin(), functions.end(), [](const auto& stage) {
          return rannc::ir::recomputes_selectively(*stage);
        })) {
      fmt::print(stderr,
                 "note: the plan recomputes selectively, but engine autograd repeats whole forward passes: times and "
                 "memory differ from the plan's prediction\n");
    }
    std::fflush(stdout);
  }

  void say_how_to_go_on() const {
    std::string again = command_;
    if (const size_t at = again.find(" --replace"); at != std::string::npos) again.erase(at, 10);
    if (!flags_.resume) again += " --resume";
    if (worker_ && worker_->report_pipe < 0) again = "the same command and --resume";  // started by another launcher
    fmt::print("ended on request after step {} of {}; resume with: {}\n", trainer_->steps_done(), flags_.steps, again);
  }

  std::string checkpoint(uint64_t step) const {
    return (folder_ / "checkpoints" / fmt::format("step-{}", step)).string();
  }
  Result<void> save(uint64_t step) { return trainer_->save(checkpoint(step)); }

  // Writes records before the last checkpoint, which synchronizes all workers, so that worker 0 can read them.
  Result<void> finish(bool leads) {
    const uint32_t rank = worker_ ? worker_->rank : 0;
    const auto held = held_memory();
    if (held) fmt::print("{}\n", tools::describe(trainer_->plan(), *held));
    for (const auto& [stage, why] : trainer_->unrecorded_stages()) {
      fmt::print(stderr, "note: stage {} runs without CUDA graphs: {}\n", stage.index(), why);
    }
    if (worker_) {
      RANNC_TRY(rannc::write_file(records_file(folder_, rank).string(), runtime::print_records(recorder_.records())));
      if (profile_) RANNC_TRY(rannc::write_file(profile_file(folder_, rank).string(), profile_->part().dump()));
      RANNC_TRY(rannc::write_file(memory_file(folder_, rank).string(), tools::print_held(held)));
    }
    RANNC_TRY(save(trainer_->steps_done()));
    if (!leads) return {};
    std::vector<runtime::ActionRecord> records = recorder_.records();
    if (worker_) {
      RANNC_ASSIGN(records, collect_records());
    }
    const rannc::ir::Plan& plan = trainer_->plan();
    RANNC_ASSIGN(const auto planned, tools::planned_spans(plan));
    tools::RunFacts facts;
    facts.title = fmt::format("{} on {}", fs::path(flags_.bundle).stem().string(), data_->describe());
    facts.command = command_;
    facts.losses = logs_.front().losses();
    facts.first_step = logs_.front().first();
    facts.steps = losses_.size();
    facts.seconds = seconds_;
    facts.transport = transport_.name;
    RANNC_ASSIGN(facts.held, collect_held(held));
    if (profile_) facts.profile = collect_profile();
    const double steps = static_cast<double>(losses_.size());
    const double rate = seconds_ > 0 ? steps / seconds_ : 0;
    const uint64_t tokens = tools::tokens_per_step(plan);
    facts.samples_per_second = rate * plan.mini_batch;
    facts.tokens_per_second = rate * static_cast<double>(tokens);
    RANNC_TRY(rannc::write_file((folder_ / "trace.json").string(),
                                runtime::chrome_trace(rannc::ir::pipeline_shape(plan), records, planned)));
    RANNC_TRY(rannc::write_file((folder_ / "report.html").string(), tools::run_report(plan, facts, records, planned)));
    const double measured = tools::measured_step_ns(records);
    if (!losses_.empty()) {
      fmt::print(
          "loss {:.4f} -> {:.4f} in {} steps, {:.1f} s, {}, step measured {:.1f} ms, predicted {:.1f} "
          "ms\n",
          losses_.front(), losses_.back(), losses_.size(), seconds_, tools::speed_text(rate, tokens, plan.mini_batch),
          measured / 1e6, static_cast<double>(plan.step_ns) / 1e6);
    }
    if (profile_) {
      fmt::print("{}", tools::profile_text(facts.profile));
      RANNC_TRY(rannc::write_file((folder_ / "profile.json").string(), facts.profile.dump(1) + "\n"));
    }
    fmt::print("checkpoint, trace.json (ui.perfetto.dev) and report.html are in {}\n", folder_.string());
    return tools::give_weights(*start_.bundle, checkpoint(trainer_->steps_done()), flags_.weights);
  }

  void restart_peak() const {
    tools::MemoryGauge::restart();
    hardware_.restart_peak();
  }

  // By process.
  nlohmann::json collect_profile() const {
    nlohmann::json processes = nlohmann::json::array();
    for (uint32_t rank = 0; rank < (worker_ ? worker_->workers : 1); ++rank)
      processes.push_back(worker_ ? nlohmann::json::parse(take_text(profile_file(folder_, rank))) : profile_->part());
    return processes;
  }

  // The first step allocates what later ones reuse, so it is not representative.
  std::optional<tools::HeldMemory> held_memory() const {
    if (losses_.size() < 2) return std::nullopt;
    const rannc::ir::Plan& plan = trainer_->plan();
    const uint32_t first = worker_ ? worker_->rank : 0;
    const uint32_t devices = worker_ ? 1 : static_cast<uint32_t>(plan.devices.size());
    if (!hardware_.devices.empty()) return tools::HeldMemory{first, devices, hardware_.peak_bytes()};
    // A mini-batch of a file is a view of the data set's tensors.
    const uint64_t unread = data_bytes_ - std::min(data_bytes_, tools::sample_bytes(plan, first, devices));
    return tools::HeldMemory{first, devices, tools::MemoryGauge::peak_bytes() - unread};
  }

  Result<std::vector<tools::HeldMemory>> collect_held(std::optional<tools::HeldMemory> own) {
    std::vector<tools::HeldMemory> all;
    for (uint32_t rank = 0; rank < (worker_ ? worker_->workers : 1); ++rank) {
      const fs::path path = memory_file(folder_, rank);
      if (worker_) {
        RANNC_ASSIGN(own, tools::parse_held(take_text(path), path.string()));
      }
      if (own) all.push_back(*own);
    }
    return all;
  }

  Result<std::vector<runtime::ActionRecord>> collect_records() {
    std::vector<runtime::ActionRecord> all;
    for (uint32_t rank = 0; rank < worker_->workers; ++rank) {
      const fs::path path = records_file(folder_, rank);
      RANNC_ASSIGN(const auto part, runtime::parse_records(take_text(path), path.string()));
      all.insert(all.end(), part.begin(), part.end());
    }
    runtime::sort_records(all);
    return all;
  }

  const Flags& flags_;
  const runtime::TransportKind& transport_;
  std::optional<tools::WorkerEnvironment> worker_;
  std::string command_;
  Start start_;
  tools::Hardware hardware_;  // outlives the trainer
  runtime::TraceRecorder recorder_;
  std::unique_ptr<tools::StepProfile> profile_;  // only if requested
  std::unique_ptr<runtime::Trainer> trainer_;
  std::unique_ptr<runtime::Dataset> data_;
  fs::path folder_;
  std::vector<double> losses_;  // losses of this process's steps
  double seconds_ = 0;
  uint64_t data_bytes_ = 0;           // size of the data set's tensors
  std::vector<tools::LossLog> logs_;  // worker 0: in the folder, and --loss-log
};

Result<void> launch(const Flags& flags, const std::vector<std::string>& arguments) {
  RANNC_ASSIGN(const Start start, prepare(flags, std::nullopt));  // reports errors once, not per worker
  RANNC_ASSIGN(const int code, tools::launch_workers(tools::own_program(), arguments,
                                                     {.workers = start.devices,
                                                      .threads = flags.threads,
                                                      .timeout = std::chrono::seconds(flags.timeout_seconds),
                                                      .ends_in_order = !start.evaluates}));
  if (code != 0) throw tools::Exit{code};
  return {};
}

// Runs nothing.
Result<void> export_alone(const Flags& flags) {
  if (!flags.weights.from.empty()) return rannc::error("--weights: give --text or --data; without them nothing is run");
  if (flags.profile) return rannc::error("--profile: give --text or --data; without them nothing is run");
  RANNC_ASSIGN(const Start start, prepare(flags, std::nullopt));
  return tools::give_weights(*start.bundle, start.checkpoint, flags.weights);
}

Result<void> train(const Flags& flags, const std::vector<std::string>& arguments) {
  const bool exports_alone = flags.text.empty() && flags.data.empty() && !flags.weights.to.empty();
  if (!exports_alone && flags.text.empty() == flags.data.empty()) return rannc::error("give either --text or --data");
  RANNC_ASSIGN(const auto worker, tools::read_worker_environment());
  if (exports_alone) return worker && worker->rank != 0 ? Result<void>() : export_alone(flags);
  const runtime::TransportKind& transport = flags.transport.empty() ? runtime::default_transport(worker.has_value())
                                                                    : *runtime::find_transport(flags.transport);
  const bool processes = transport.between_processes();
  if (processes && !worker) return launch(flags, arguments);
  runtime::keep_freed_memory();
  runtime::set_threads(static_cast<int>(flags.threads));
  tools::MemoryGauge::install();
  const std::string command = "rannc-run " + tools::shell_words(arguments);
  if (!processes) return Run(flags, transport, std::nullopt, command).run();
  tools::run_as_worker(*worker, [&] { return Run(flags, transport, worker, command).run(); });
  return {};
}

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("bundle", flags.bundle, "bundle written by rannc-compile")->required();
  app.add_option("-o,--output", flags.output,
                 "folder for checkpoints, trace and report (default: the bundle's name with .run)");
  app.add_option("--text", flags.text, "files or folders of text, for next-byte prediction");
  app.add_option("--data", flags.data, ".safetensors file with tensors x/<input> and labels/<name>");
  app.add_option("--steps", flags.steps, "total number of steps, including those before a resume")
      ->capture_default_str();
  app.add_option("--transport", flags.transport,
                 fmt::format("{} (default: {} if torchrun, mpirun or srun has started several processes, else {})",
                             runtime::transport_summaries(), runtime::default_transport(true).name,
                             runtime::default_transport(false).name))
      ->check(CLI::IsMember(runtime::transport_names()));
  app.add_option("--engine", flags.engine, runtime::engine_summaries())->check(CLI::IsMember(runtime::engine_names()));
  tools::add_device_flag(app, flags.device);
  tools::add_graphs_flag(app, flags.cuda_graphs);
  app.add_option("--matmul-precision", flags.matmul_precision,
                 "of float32 products, convolutions and recurrent layers on GPUs: highest, or high for TF32")
      ->check(CLI::IsMember({"highest", "high"}))
      ->capture_default_str();
  app.add_flag("--deterministic", flags.deterministic,
               "on GPUs, use only kernels whose results have the same bits in every run");
  app.add_option("--threads", flags.threads, "threads per worker")->check(CLI::Range(1, 1024))->capture_default_str();
  tools::add_setting_flags(app, flags.settings);
  app.add_option("--checkpoint-every", flags.checkpoint_every, "steps between checkpoints; 0: only at the end")
      ->capture_default_str();
  auto* resume = app.add_flag("--resume", flags.resume,
                              "continue from the latest checkpoint in the output folder, with its settings unless "
                              "flags override them");
  app.add_flag("--replace", flags.replace, "remove a previous run in the output folder")->excludes(resume);
  app.add_flag("--evaluate", flags.evaluate,
               "compute outputs and loss of all samples of --data without training (with --resume, from the latest "
               "checkpoint); implied for a bundle without a loss");
  app.add_flag("--profile", flags.profile,
               "report where the time of a step goes, by kind of work and by task of the model; also written to "
               "report.html and profile.json");
  app.add_option("--timeout", flags.timeout_seconds, "seconds to wait for another worker")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
      "--loss-log", flags.loss_log,
      "additional file with the contents of losses.txt in the output folder: a line per step with its number and its "
      "loss as a hexadecimal float");
  tools::add_weight_flags(app, flags.weights);
  tools::add_library_flag(app, flags.libraries);
}

}  // namespace

int tools::run_main(int argc, char** argv) {
  CLI::App app("Trains a bundle, or evaluates it if it has no loss.", "rannc-run");
  Flags flags;
  add_flags(app, flags);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return tools::run_tool(app, argc, argv, [&] { return train(flags, arguments); });
}
