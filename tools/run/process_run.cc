#include "tools/run/process_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "ir/base/stopwatch.h"
#include "ir/plan/functions.h"
#include "ir/plan/parameter_updates.h"
#include "runtime/data/dataset.h"
#include "runtime/execute/trace.h"
#include "runtime/train/loss_sums.h"
#include "runtime/train/process.h"
#include "runtime/train/shared_tensors.h"
#include "runtime/train/trainer.h"
#include "tools/common/gpu_environment.h"
#include "tools/common/hardware.h"
#include "tools/common/how_to_train.h"
#include "tools/common/run_signals.h"
#include "tools/measure/memory_gauge.h"
#include "tools/measure/step_profile.h"
#include "tools/run/evaluate_run.h"
#include "tools/run/find_nonfinite.h"
#include "tools/run/hang_watch.h"
#include "tools/run/loss_log.h"
#include "tools/run/progress.h"
#include "tools/run/run_data.h"
#include "tools/run/run_restart.h"
#include "tools/run/run_results.h"
#include "tools/run/run_start.h"
#include "tools/run/run_validation.h"
#include "tools/run/run_worker.h"
#include "tools/run/step_log.h"
#include "tools/run/tensorboard_log.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kTracedSteps = 3, kExplainedSteps = 16;

class Run {
 public:
  Run(const RunFlags& flags, const runtime::TransportKind& transport, const std::optional<WorkerEnvironment>& worker,
      const RunCaller& caller)
      : flags_(flags),
        transport_(transport),
        worker_(worker),
        command_(caller.command),
        kept_(caller.kept),
        recorder_(flags.explain_step ? kExplainedSteps : kTracedSteps),
        actions_(caller.observer) {
    // The plan may raise the default, once it is read.
    if (worker)
      hang_watch_.emplace(*worker,
                          flags.timeout_seconds ? std::chrono::seconds(*flags.timeout_seconds) : kLeastTimeout);
  }

  Result<void> run() {
    Result<void> done = run_all();
    // The others would only find that this worker is gone.
    if (!done.ok() && worker_ && trainer_) trainer_->close(error(worker_report(done.diagnostic(), worker_->rank)));
    begin("the end of the run");
    return done;
  }

 private:
  bool leads() const { return !worker_ || worker_->rank == 0; }

  runtime::Progress* watched() const { return hang_watch_ ? hang_watch_->progress().get() : nullptr; }
  void begin(std::string_view work) const {
    runtime::begin_work(watched(), {.what = work, .limits = runtime::kFileLimits});
  }
  void begin_in_step(std::string_view work, uint64_t step) const {
    runtime::begin_work(watched(), {.what = work, .step = step});
  }

  Result<void> run_all() {
    const bool launched = worker_ && worker_->report_pipe >= 0;  // then the launcher reports and ends this process
    begin("opening the bundle");
    RANNC_ASSIGN(start_, prepare_run(flags_, worker_));
    if (hang_watch_) hang_watch_->set_timeout(start_.timeout);
    set_gpu_environment({.over_nccl = transport_.needs_nccl,
                         .on_streams = transport_.needs_nccl || !transport_.between_processes(),
                         .deterministic = flags_.deterministic});
    if (flags_.deterministic) runtime::use_deterministic_kernels();
    if (flags_.time_convolutions) runtime::time_convolutions();
    RANNC_ASSIGN(hardware_, open_hardware(flags_.device, ir::device_type(start_.bundle->plan)));
    if (flags_.matmul_precision == "high") runtime::set_product_precision(runtime::ProductPrecision::kHigh);
    if (leads()) warn_of_damaged(start_);
    if (leads() && !hardware_.note.empty()) fmt::print(stderr, "note: {}\n", hardware_.note);
    if (start_.evaluates) {
      RANNC_TRY(open());
      RANNC_TRY(evaluate());
      return leads() ? give_weights(*start_.bundle, start_.checkpoints.latest, flags_.weights) : Result<void>();
    }
    const RunSignals signals({.announces = leads() && !launched, .second_ends = !launched});
    RANNC_TRY(open());
    RANNC_TRY(open_training());
    RANNC_TRY(train(signals));
    RANNC_TRY(finish());
    if (trainer_->steps_done() >= steps_) return {};
    if (leads()) say_how_to_go_on();
    throw Exit{exit_of(signals.stop_signal() != 0 ? signals.stop_signal() : SIGTERM)};
  }

  /// Runs the remaining steps, or those before a signal. Steps that have begun are recorded, whatever ends them.
  Result<void> train(const RunSignals& signals) {
    Progress progress(leads(), steps_);
    first_step_ = trainer_->steps_done();
    const Stopwatch watch;
    const Result<void> run = run_steps(signals, progress);
    RANNC_TRY(end_steps(0, progress));
    RANNC_TRY(run);
    seconds_ = watch.seconds() - (validation_ ? validation_->seconds() : 0);
    progress.end();
    return {};
  }

  Result<void> run_steps(const RunSignals& signals, Progress& progress) {
    for (uint64_t step = trainer_->steps_done(); step < steps_; step = trainer_->steps_done()) {
      if (trainer_->begun_steps() == 0) step_watch_ = Stopwatch();
      begin_in_step("reading the samples", step);
      std::vector<runtime::Batch> batches;
      for (uint64_t i = 0; i < flags_.accumulate; ++i) {
        RANNC_ASSIGN(batches.emplace_back(), data_->batch(step * flags_.accumulate + i));
      }
      if (profile_) profile_->begin_step();
      if (nonfinite_) nonfinite_->begin_step();
      const LinkTraffic before = trainer_->sent_bytes();
      // The actions of the step begin by themselves, unless the transport cannot tell waits from work.
      if (watched() != nullptr) watched()->rest(runtime::Progress::Lane::kSteps);
      RANNC_TRY(trainer_->begin_step_part(batches, flags_.accumulated()));
      links_ = since(before, trainer_->sent_bytes());
      if (nonfinite_) examined_ = std::move(batches.front());
      batches.clear();  // the trainer keeps what it needs
      RANNC_TRY(end_steps(trainer_->runs_ahead() && !is_read_at_once(step) ? 1 : 0, progress));
      // A request to one worker ends all workers after the same step.
      RANNC_ASSIGN(const bool goes_on, trainer_->all_agree(signals.stop_signal() == 0));
      if (!goes_on) break;
    }
    return {};
  }

  /// Whether the result of a step is needed before the next step begins.
  bool is_read_at_once(uint64_t step) const {
    return profile_ || step + 1 == steps_ || saves_after(step) || (validation_ && validation_->due(step + 1, steps_));
  }
  bool saves_after(uint64_t step) const {
    return flags_.checkpoint_every > 0 && (step + 1) % flags_.checkpoint_every == 0 && step + 1 < steps_;
  }

  /// Ends all steps that have begun but the last `left`.
  Result<void> end_steps(size_t left, Progress& progress) {
    while (trainer_->begun_steps() > left) {
      RANNC_ASSIGN(const runtime::StepResult result, trainer_->end_step());
      if (profile_) profile_->end_step();
      RANNC_TRY(record(first_step_ + losses_.size(), result, progress));
    }
    return {};
  }

  Result<void> record(uint64_t step, const runtime::StepResult& result, Progress& progress) {
    begin_in_step("writing the measurements", step);
    const uint64_t tokens = tokens_per_step(flags_.source, trainer_->plan()) * flags_.accumulate;
    warn_of_sizes(result);
    if (nonfinite_) RANNC_TRY(nonfinite_->check(*trainer_, examined_, result));
    losses_.push_back(result.loss);
    skipped_ += result.skipped ? 1 : 0;
    skipped_last_ = result.skipped ? skipped_last_ + 1 : 0;
    if (losses_.size() == 1) restart_peak();  // the first step is not representative
    progress.step(step + 1, result.loss, {tokens, samples_per_step(), peak_bytes()});
    StepFacts facts{.done = step + 1,
                    .loss = result.loss,
                    .seconds = std::exchange(step_watch_, Stopwatch()).seconds(),
                    .tokens = tokens,
                    .metrics = runtime::scalar_metrics(result.metrics)};
    for (LossLog& log : logs_) RANNC_TRY(log.add(step, result.loss));
    if (validation_ && validation_->due(step + 1, steps_)) {
      RANNC_ASSIGN(facts.validation, validate(progress));
    }
    if (leads()) RANNC_TRY(log_step(std::move(facts), result.gradient_norm));
    return saves_after(step) ? start_save(step + 1) : Result<void>();
  }

  Result<void> open() {
    runtime::TrainerOptions options = trainer_options(flags_, start_);
    actions_.forward_to(&recorder_);
    options.observer = &actions_;
    if (flags_.profile) {
      profile_ = std::make_unique<StepProfile>(start_.bundle->plan, recorder_);
      actions_.forward_to(profile_.get());
      options.origins = runtime::Origins::kKept;
    }
    if (flags_.find_nonfinite) {
      const ir::Plan& plan = start_.bundle->plan;
      nonfinite_ = std::make_unique<NonfiniteFinder>(plan, worker_ ? static_cast<uint32_t>(plan.devices.size()) : 1);
      options.nonfinite = nonfinite_.get();
      options.engine = "explicit";
    }
    if (worker_) {
      if (transport_.needs_nccl) warn_of_buffers();
      runtime::Rendezvous rendezvous = rendezvous_of(*worker_, start_);
      rendezvous.progress = hang_watch_->progress();
      RANNC_ASSIGN(auto transport, transport_.join(rendezvous, hardware_.at(worker_->local_rank)));
      RANNC_ASSIGN(trainer_, runtime::Trainer::open_worker(flags_.bundle, options, std::move(transport)));
    } else {
      options.transport = transport_.name;
      options.hardware = hardware_.all();
      RANNC_ASSIGN(trainer_, runtime::Trainer::open(flags_.bundle, options));
    }
    folder_ = flags_.output_folder();
    if (start_.checkpoints.latest.empty()) {
      RANNC_TRY(take_weights(*trainer_, flags_.weights, leads()));
    } else {
      RANNC_ASSIGN(samples_before_, trainer_->load(start_.checkpoints.latest, runtime::Trainer::Settings::kOfOptions));
    }
    if (!flags_.resume_shared.empty()) RANNC_TRY(take_shared());
    // Workers whose hosts do not share the folder have found their checkpoints separately.
    return trainer_->check_shared({{"--resume-shared", flags_.resume_shared.empty() ? "off" : "on"},
                                   {"--resume from step", fmt::format("{}", trainer_->steps_done())},
                                   {"--evaluate", start_.evaluates ? "on" : "off"}});
  }

  void warn_of_buffers() const {
    const std::string warning = nccl_memory_warning(start_.bundle->plan, DeviceId(worker_->rank),
                                                    hardware_.at(worker_->local_rank).memory_bytes());
    if (!warning.empty()) fmt::print(stderr, "warning: {}\n", warning);
  }

  Result<void> take_shared() {
    const auto found = check_run_folder(flags_.resume_shared, RunFolderUse::kResume);
    if (!found.ok())
      return error({flags_.resume_shared, 0, 0, {}},
                   "--resume-shared: is no folder of a run with a finished checkpoint");
    const RunCheckpoints& theirs = *found;
    // Workers whose hosts do not share the folder have found their checkpoints separately.
    const std::string step = std::filesystem::path(theirs.latest).filename().string();
    RANNC_TRY(trainer_->check_shared({{"--resume-shared from", step}}));
    RANNC_ASSIGN(const runtime::SharedTensors shared, trainer_->load_shared(theirs.latest));
    if (!leads()) return {};
    const auto listed = [](const std::vector<std::string>& names) {
      return names.empty() ? "none" : fmt::format("{}: {}", names.size(), fmt::join(names, ", "));
    };
    fmt::print("{} tensors are those of {}\n  only in this model, {}\n  only in that one, {}\n", shared.keys.size(),
               theirs.latest, listed(shared.own), listed(shared.theirs));
    return {};
  }

  /// What the workers do together depends on these flags, and on the number of samples.
  Result<void> check_shared() {
    const std::optional<uint64_t> of_epoch = data_->steps_per_epoch();
    return trainer_->check_shared({{"--steps", fmt::format("{}", steps_)},
                                   {"--accumulate", fmt::format("{} {}", flags_.accumulate, flags_.accumulate_as)},
                                   {"mini-batches per epoch", of_epoch ? fmt::format("{}", *of_epoch) : "any number"},
                                   {"--bucket-by-length", flags_.source.by_length ? "on" : "off"},
                                   {"--pad-multiple", fmt::format("{}", flags_.source.pad_multiple)},
                                   {"--pad", fmt::format("{}", fmt::join(flags_.source.pads, " "))},
                                   {"--shuffle", flags_.source.shuffle ? "on" : "off"},
                                   {"--sequence", fmt::format("{}", flags_.source.sequence.value_or(0))},
                                   {"--validate", validation_ ? "on" : "off"},
                                   {"--validate-every", fmt::format("{}", flags_.source.validate_every)},
                                   {"--checkpoint-every", fmt::format("{}", flags_.checkpoint_every)},
                                   {"--find-nonfinite", flags_.find_nonfinite ? "on" : "off"}});
  }

  Result<void> evaluate() {
    if (flags_.source.data.empty()) {
      const char* why =
          trainer_->plan().training ? "--evaluate evaluates the samples of a file" : "the bundle has no loss";
      return error(fmt::format("{}: give --data, not --text or --tokens; {}", why, how_to_train(trainer_->plan())));
    }
    EvaluationRun run{.bundle = flags_.bundle, .data = flags_.source.data, .folder = folder_};
    if (worker_) run.rank = worker_->rank;
    return evaluate_run(*trainer_, run);
  }

  // A loaded checkpoint provides the seed, so the run continues with the same text.
  Result<void> open_training() {
    begin("opening the samples");
    RANNC_ASSIGN(data_, open_data(flags_.source, trainer_->plan(), trainer_->seed(), trainer_->needed_samples(),
                                  prepare_samples()));
    RANNC_TRY(count_steps());
    if (!flags_.source.validate.empty()) {
      RANNC_ASSIGN(validation_, RunValidation::open(flags_.source, trainer_->plan()));
    }
    RANNC_TRY(check_shared());
    RANNC_TRY(prepare_run_folder(folder_, flags_.folder_use()));
    RANNC_TRY(keep_flags(folder_, flags_));
    if (!leads()) return {};
    if (!flags_.log.empty()) {
      RANNC_ASSIGN(step_log_, StepLog::open(flags_.log, trainer_->steps_done()));
    }
    if (!flags_.tensorboard.empty()) {
      RANNC_ASSIGN(tensorboard_, TensorBoardLog::open(flags_.tensorboard, trainer_->steps_done()));
    }
    for (const std::string& path : {(folder_ / kLossesFile).string(), flags_.loss_log}) {
      if (path.empty()) continue;
      RANNC_ASSIGN(LossLog log, LossLog::open(path, trainer_->steps_done()));
      logs_.push_back(std::move(log));
    }
    say_what_begins();
    return {};
  }

  /// Those of this process; empty: the processor.
  std::vector<runtime::Device*> used_devices() const {
    if (hardware_.devices.empty()) return {};
    if (worker_) return {&hardware_.at(worker_->local_rank)};
    std::vector<runtime::Device*> used = hardware_.all();
    used.resize(std::min(used.size(), trainer_->plan().devices.size()));
    return used;
  }

  /// What the thread that reads ahead does with samples. One GPU gets a copy; several GPUs, and one that would need
  /// those of several mini-batches, copy them when they are needed.
  runtime::PrepareValue prepare_samples() const {
    const std::vector<runtime::Device*> used = used_devices();
    if (used.empty()) return {};
    if (used.size() == 1 && flags_.accumulate == 1)
      return [to = used[0]](const runtime::Value& value) { return to->stage(value); };
    return [to = used[0]](const runtime::Value& value) { return to->pinned(value); };
  }

  uint64_t samples_per_step() const { return trainer_->plan().mini_batch * flags_.accumulate; }

  Result<void> count_steps() {
    steps_ = flags_.steps;
    if (flags_.epochs) {
      const std::optional<uint64_t> of_epoch = data_->steps_per_epoch();
      if (!of_epoch) return error(fmt::format("--epochs: {} has no epochs; use --steps", data_->describe()));
      steps_ = (*flags_.epochs * *of_epoch + flags_.accumulate - 1) / flags_.accumulate;
    }
    const bool examines = flags_.profile || flags_.explain_step || flags_.find_nonfinite;
    if (examines && flags_.accumulate > 1)  // kept from before a resume
      return error(
          "--profile, --explain-step and --find-nonfinite examine steps of one mini-batch; give --accumulate 1");
    if (!flags_.profile || steps_ >= start_.step + StepProfile::kLeastSteps) return {};
    return error(fmt::format("--profile requires --steps {} or more, found {}{}; the first {} do not count",
                             start_.step + StepProfile::kLeastSteps, steps_,
                             start_.step > 0 ? fmt::format(", {} of which are done", start_.step) : "",
                             StepProfile::kWarmUp));
  }

  void say_what_begins() const {
    fmt::print("training {} on {}\n", flags_.bundle, data_->describe());
    if (validation_) fmt::print("{}\n", validation_->describe());
    fmt::print("{}{}\n",
               start_.checkpoints.latest.empty() ? "" : fmt::format("resuming after step {} with ", start_.step),
               describe(start_.found.settings));
    if (!kept_.used.empty()) fmt::print("flags of the run: {}\n", fmt::join(kept_.used, ", "));
    for (const std::vector<std::string>* changes : {&start_.found.changed, &kept_.changed}) {
      for (const std::string& change : *changes) fmt::print("changed by a flag: {}\n", change);
    }
    if (!kept_.lacking.empty()) fmt::print("flags that the run had before: {}\n", fmt::join(kept_.lacking, ", "));
    if (kept_.unknown)
      fmt::print(stderr, "note: {} does not have the flags of the run, such as --steps\n", folder_.string());
    if (start_.step >= steps_)
      fmt::print("all {} steps of the run are done; --steps N or --epochs N continues it\n", steps_);
    if (!samples_before_.empty() && samples_before_ != data_->describe())
      fmt::print("changed: the checkpoint was trained on {}\n", samples_before_);
    print_groups();
    const ir::Plan& plan = trainer_->plan();
    const int64_t planned = ir::ParameterUpdates::of(plan.graph, plan.optimizer).value().state_elements();
    if (const int64_t kept = trainer_->updates().state_elements(); plan.training && kept > planned) {
      fmt::print(stderr,
                 "warning: the optimizer keeps {} numbers beside the parameters, but the plan reserves memory for {}; "
                 "compile with the same --optimizer, --group and --ema\n",
                 kept, planned);
    }
    std::fflush(stdout);
  }

  void print_groups() const {
    const std::vector<ir::UpdateGroup>& groups = trainer_->updates().groups();
    const auto used = std::count_if(groups.begin(), groups.end(), [](const auto& group) { return group.elements > 0; });
    for (const ir::UpdateGroup& group : groups) {
      if (used < 2 || group.elements == 0) continue;
      const size_t tensors = group.tensors.size();
      fmt::print("  {:L} parameters in {} tensor{}{} {}: {}\n", group.elements, tensors, tensors == 1 ? "," : "s,",
                 tensors > 1 ? " such as" : "", group.tensors[0], ir::describe(group.rule));
    }
  }

  void say_how_to_go_on() const {
    fmt::print("ended on request after step {} of {}; resume with: {}\n", trainer_->steps_done(), steps_,
               resume_command(flags_, worker_));
  }

  /// Validates after the steps done. The memory and the actions of evaluations are not those of training.
  Result<runtime::ValidationResult> validate(Progress& progress) {
    begin("validating");
    if (losses_.size() >= 2) peak_before_ = peak_bytes();
    actions_.forward(false);
    const bool averaged = start_.found.settings.optimizer.grouping.average > 0;
    if (averaged) RANNC_TRY(trainer_->swap_averages());
    RANNC_ASSIGN(const runtime::ValidationResult result, validation_->run(*trainer_, trainer_->steps_done()));
    if (averaged) RANNC_TRY(trainer_->swap_averages());
    actions_.forward(true);
    restart_peak();
    progress.note(validation_->describe_last(), validation_->last_seconds());
    return result;
  }

  Result<void> log_step(StepFacts facts, double gradient_norm) {
    facts.learning_rate = start_.found.settings.optimizer.learning_rate_at(facts.done - 1);
    facts.samples = samples_per_step();
    facts.gradient_norm = gradient_norm;
    if (const auto of_epoch = data_->steps_per_epoch())
      facts.epoch = static_cast<double>(facts.done * flags_.accumulate) / static_cast<double>(*of_epoch);
    if (step_log_) RANNC_TRY(step_log_->add(facts));
    return tensorboard_ ? tensorboard_->add(facts) : Result<void>();
  }

  Result<void> start_save(uint64_t step) {
    begin("starting a checkpoint");
    return trainer_->start_save(checkpoint(step), data_->describe());
  }
  std::string checkpoint(uint64_t step) const {
    return (folder_ / "checkpoints" / fmt::format("step-{}", step)).string();
  }
  Result<void> finish() {
    begin("writing the results");
    const auto held = held_memory();
    if (held) fmt::print("{}\n", describe(trainer_->plan(), *held));
    if (leads() && skipped_ > 0) {
      fmt::print("{} of {} steps updated nothing, because scaled gradients overflowed; the loss scale is {}\n",
                 skipped_, losses_.size(), trainer_->loss_scale());
      warn_of_last_steps();
    }
    for (const auto& [stage, why] : trainer_->unrecorded_stages()) {
      fmt::print(stderr, "note: stage {} runs without CUDA graphs: {}\n", stage.index(), why);
    }
    RANNC_ASSIGN(const RunResults results, gather_results(*trainer_, {recorder_, profile_.get(), held, links_}));
    RANNC_TRY(trainer_->save(checkpoint(trainer_->steps_done()), data_->describe()));
    if (!leads()) return {};
    RunFacts facts;
    facts.title = fmt::format("{} on {}", fs::path(flags_.bundle).stem().string(), data_->describe());
    facts.command = command_;
    facts.losses = logs_.front().losses();
    facts.first_step = logs_.front().first();
    facts.steps = losses_.size();
    facts.seconds = seconds_;
    facts.tokens = tokens_per_step(flags_.source, trainer_->plan()) * flags_.accumulate;
    facts.mini_batches = flags_.accumulate;
    if (validation_) facts.validation = validation_->losses();
    facts.transport = transport_.name;
    facts.explains = flags_.explain_step;
    RANNC_TRY(write_results(trainer_->plan(), results, std::move(facts), folder_));
    return give_weights(*start_.bundle, checkpoint(trainer_->steps_done()), flags_.weights);
  }

  /// A short run may end before its loss scale fits, or before a step fails at the smallest.
  void warn_of_last_steps() const {
    if (skipped_last_ == 0) return;
    fmt::print(stderr,
               "warning: the last {} of {} steps updated nothing, because gradients overflowed; the loss scale fell to "
               "{}. If a longer run fails at a loss scale of 1, --find-nonfinite names the task\n",
               skipped_last_, losses_.size(), trainer_->loss_scale());
  }

  /// Once, at the first step.
  void warn_of_sizes(const runtime::StepResult& result) {
    if (!leads() || warned_of_sizes_ || result.beyond_plan.empty()) return;
    warned_of_sizes_ = true;
    print_beyond_plan(result.beyond_plan);
  }

  void restart_peak() const {
    MemoryGauge::restart();
    hardware_.restart_peak();
  }

  // The first step allocates what later ones reuse, so it is not representative.
  std::optional<HeldMemory> held_memory() const {
    if (losses_.size() < 2) return std::nullopt;
    const ir::Plan& plan = trainer_->plan();
    const uint32_t first = worker_ ? worker_->rank : 0;
    const uint32_t devices = worker_ ? 1 : static_cast<uint32_t>(plan.devices.size());
    return HeldMemory{first, devices,
                      peak_bytes() + (hardware_.devices.empty() ? sample_bytes(plan, first, devices) : 0)};
  }
  /// Peak since the last restart and before validations. On the processor, mini-batches do not count (`open_data`).
  uint64_t peak_bytes() const {
    const uint64_t own = hardware_.devices.empty() ? MemoryGauge::peak_bytes() : hardware_.peak_bytes();
    return std::max(own, peak_before_);
  }

  const RunFlags& flags_;
  const runtime::TransportKind& transport_;
  const std::optional<WorkerEnvironment>& worker_;
  const std::string& command_;
  const KeptFlags& kept_;
  RunStart start_;
  std::optional<HangWatch> hang_watch_;  // of a worker; outlives the trainer, whose end may hang
  Hardware hardware_;                    // outlives the trainer
  runtime::TraceRecorder recorder_;
  TrainingActions actions_;
  std::unique_ptr<StepProfile> profile_;        // only if requested
  std::unique_ptr<NonfiniteFinder> nonfinite_;  // the same
  std::unique_ptr<runtime::Trainer> trainer_;
  std::unique_ptr<runtime::Dataset> data_;
  fs::path folder_;
  std::string samples_before_;  // description of those of the checkpoint
  uint64_t steps_ = 0;          // of the run, those before a resume included
  bool warned_of_sizes_ = false;
  uint64_t first_step_ = 0;     // of this process
  Stopwatch step_watch_;        // of the step whose result is read next
  runtime::Batch examined_;     // by --find-nonfinite
  std::vector<double> losses_;  // losses of this process's steps
  size_t skipped_ = 0;          // of them
  size_t skipped_last_ = 0;     // of them, since the last update
  LinkTraffic links_;           // of the last step
  double seconds_ = 0;
  uint64_t peak_before_ = 0;  // of steps before the last validation
  std::optional<RunValidation> validation_;
  std::optional<StepLog> step_log_;            // worker 0
  std::optional<TensorBoardLog> tensorboard_;  // the same
  std::vector<LossLog> logs_;                  // worker 0: in the folder, and --loss-log
};

}  // namespace

Result<void> run_process(const RunFlags& flags, const runtime::TransportKind& transport,
                         const std::optional<WorkerEnvironment>& worker, const RunCaller& caller) {
  return Run(flags, transport, worker, caller).run();
}

}  // namespace rannc::tools
