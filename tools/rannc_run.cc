// rannc-run: trains or evaluates a bundle with the workers of this machine, or as one worker of a launcher.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/checkpoint.h"
#include "runtime/dataset.h"
#include "runtime/threads.h"
#include "runtime/trace.h"
#include "runtime/trainer.h"
#include "runtime/transport_gloo.h"
#include "tools/driver.h"
#include "tools/evaluate_run.h"
#include "tools/how_to_train.h"
#include "tools/launcher.h"
#include "tools/memory_gauge.h"
#include "tools/progress.h"
#include "tools/run_report.h"

namespace {

namespace fs = std::filesystem;
namespace runtime = rannc::runtime;
namespace tools = rannc::tools;
using rannc::Result;
using Clock = std::chrono::steady_clock;

struct Flags {
  std::string bundle;
  std::string output;
  std::vector<std::string> text;
  std::string data;
  uint64_t steps = 100;
  std::string transport = "local";
  uint32_t threads = 1;
  std::string optimizer = "adam";
  runtime::TrainerOptions trainer;
  uint64_t checkpoint_every = 0;
  bool resume = false;
  bool evaluate = false;  // also what a bundle without a loss gets
  uint32_t timeout_seconds = 60;
  std::string loss_log;
};

// Plan facts that the data needs: a text model reads one token input and one label input of rank 2.
Result<std::unique_ptr<runtime::Dataset>> open_data(const Flags& flags, const rannc::ir::Plan& plan, uint64_t seed) {
  if (!flags.data.empty()) return runtime::open_samples(flags.data, plan.mini_batch);
  runtime::TextOptions options;
  options.paths = flags.text;
  options.samples = plan.mini_batch;
  options.seed = seed;
  options.input.clear();
  for (const rannc::ValueId id : plan.graph.inputs()) {
    const std::string name(plan.graph.value(id).name);
    const auto& type = plan.graph.type(id);
    if (type.dtype != rannc::ir::DType::kI64 || !type.shape || type.shape->size() != 2 ||
        !(*type.shape)[1].is_constant()) {
      return rannc::error(fmt::format("--text: input '{}' is no list of tokens per sample; give --data instead", name));
    }
    options.length = static_cast<uint64_t>((*type.shape)[1].constant());
    (name.starts_with("labels/") ? options.labels : options.input) = name;
  }
  if (options.input.empty() || plan.graph.inputs().size() != 2) {
    return rannc::error("--text needs a model with one token input and one label input; give --data instead");
  }
  return runtime::open_text(options);
}

uint64_t tokens_per_step(const rannc::ir::Plan& plan) {
  for (const rannc::ValueId id : plan.graph.inputs()) {
    const auto& type = plan.graph.type(id);
    if (type.shape && type.shape->size() == 2 && type.dtype == rannc::ir::DType::kI64 &&
        (*type.shape)[1].is_constant()) {
      return static_cast<uint64_t>((*type.shape)[1].constant()) * plan.mini_batch;
    }
  }
  return 0;
}

std::string output_folder(const Flags& flags) {
  return flags.output.empty() ? fs::path(flags.bundle).replace_extension(".run").string() : flags.output;
}

Result<void> write_text(const fs::path& path, const std::string& text) {
  const fs::path partial = path.string() + ".partial";
  std::ofstream file(partial, std::ios::trunc);
  file << text;
  std::error_code failed;
  if (file.flush()) fs::rename(partial, path, failed);
  if (!file || failed) return rannc::error({path.string(), 0, 0, {}}, "cannot be written");
  return {};
}

// What a worker leaves to the first one.
fs::path records_file(const fs::path& folder, uint32_t rank) { return folder / fmt::format(".records-{}", rank); }
fs::path memory_file(const fs::path& folder, uint32_t rank) { return folder / fmt::format(".memory-{}", rank); }

// What `path` says; it is then gone.
std::string take_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::error_code ignored;
  fs::remove(path, ignored);
  return text.str();
}

/// One process's part of a run.
class Run {
 public:
  Run(const Flags& flags, std::optional<tools::WorkerEnvironment> worker, std::string command)
      : flags_(flags), worker_(std::move(worker)), command_(std::move(command)) {}

  Result<void> run() {
    RANNC_TRY(open());
    if (flags_.evaluate || !trainer_->plan().training) return evaluate();
    RANNC_TRY(open_training());
    const bool leads = !worker_ || worker_->rank == 0;
    tools::Progress progress(leads, flags_.steps);
    const auto start = Clock::now();
    for (uint64_t step = trainer_->steps_done(); step < flags_.steps; step = trainer_->steps_done()) {
      RANNC_ASSIGN(const runtime::Batch batch, data_->batch(step));
      RANNC_ASSIGN(const runtime::StepResult result, trainer_->step(batch));
      losses_.push_back(result.loss);
      if (losses_.size() == 1) tools::MemoryGauge::restart();  // the first step is not like the others
      progress.step(step + 1, result.loss, tokens_per_step(trainer_->plan()), trainer_->plan().mini_batch);
      if (leads && log_.is_open()) log_ << fmt::format("{} {:a}\n", step, result.loss) << std::flush;
      if (flags_.checkpoint_every > 0 && (step + 1) % flags_.checkpoint_every == 0 && step + 1 < flags_.steps)
        RANNC_TRY(save(step + 1));
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    progress.end();
    return finish(leads);
  }

 private:
  Result<void> open() {
    runtime::TrainerOptions options = flags_.trainer;
    options.observer = &recorder_;
    options.timeout = std::chrono::seconds(flags_.timeout_seconds);
    if (worker_) {
      RANNC_ASSIGN(auto transport, runtime::join_gloo({.host = worker_->master_address,
                                                       .port = worker_->master_port,
                                                       .rank = worker_->rank,
                                                       .workers = worker_->workers,
                                                       .listening_socket = worker_->listening_socket,
                                                       .timeout = options.timeout}));
      RANNC_ASSIGN(trainer_, runtime::Trainer::open_worker(flags_.bundle, options, std::move(transport)));
    } else {
      RANNC_ASSIGN(trainer_, runtime::Trainer::open(flags_.bundle, options));
    }
    folder_ = output_folder(flags_);
    if (flags_.resume) {
      const std::string latest = runtime::latest_checkpoint((folder_ / "checkpoints").string());
      if (latest.empty())
        return rannc::error({(folder_ / "checkpoints").string(), 0, 0, {}},
                            "--resume: there is no finished checkpoint");
      RANNC_ASSIGN(const std::string ignored, trainer_->load(latest));
    }
    return {};
  }

  Result<void> evaluate() {
    if (flags_.data.empty()) {
      const char* why = trainer_->plan().training ? "--evaluate goes over the samples of a file" : "the bundle has no loss";
      return rannc::error(fmt::format("{}: give --data, not --text; {}", why, tools::how_to_train(trainer_->plan())));
    }
    tools::EvaluationRun run{.bundle = flags_.bundle, .data = flags_.data, .folder = folder_};
    if (worker_) run.rank = worker_->rank, run.workers = worker_->workers;
    return tools::evaluate_run(*trainer_, run);
  }

  // A loaded checkpoint has the seed: the text that it goes on with is that of its run.
  Result<void> open_training() {
    const uint64_t before = tools::MemoryGauge::live_bytes();
    RANNC_ASSIGN(data_, open_data(flags_, trainer_->plan(), trainer_->seed()));
    data_bytes_ = tools::MemoryGauge::live_bytes() - before;
    std::error_code failed;
    fs::create_directories(folder_ / "checkpoints", failed);
    if (failed) return rannc::error({folder_.string(), 0, 0, {}}, "cannot be created: " + failed.message());
    first_step_ = trainer_->steps_done();
    if (!flags_.loss_log.empty()) {
      log_.open(flags_.loss_log, flags_.resume ? std::ios::app : std::ios::trunc);
      if (!log_) return rannc::error({flags_.loss_log, 0, 0, {}}, "cannot be written");
    }
    if (!worker_ || worker_->rank == 0) fmt::print("training {} on {}\n", flags_.bundle, data_->describe());
    return {};
  }

  Result<void> save(uint64_t step) {
    return trainer_->save((folder_ / "checkpoints" / fmt::format("step-{}", step)).string());
  }

  // Records are on disk before the last checkpoint, which all workers make together: then the first can read them.
  Result<void> finish(bool leads) {
    const uint32_t rank = worker_ ? worker_->rank : 0;
    const auto held = held_memory();
    if (held) fmt::print("{}\n", tools::describe(trainer_->plan(), *held));
    if (worker_) {
      RANNC_TRY(write_text(records_file(folder_, rank), runtime::print_records(recorder_.records())));
      RANNC_TRY(write_text(memory_file(folder_, rank), tools::print_held(held)));
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
    facts.losses = losses_;
    facts.first_step = first_step_;
    facts.seconds = seconds_;
    facts.transport = worker_ ? "gloo" : "local";
    RANNC_ASSIGN(facts.held, collect_held(held));
    const double steps = static_cast<double>(losses_.size());
    facts.samples_per_second = seconds_ > 0 ? steps * plan.mini_batch / seconds_ : 0;
    facts.tokens_per_second = seconds_ > 0 ? steps * static_cast<double>(tokens_per_step(plan)) / seconds_ : 0;
    RANNC_TRY(
        write_text(folder_ / "trace.json", runtime::chrome_trace(rannc::ir::pipeline_shape(plan), records, planned)));
    RANNC_TRY(write_text(folder_ / "report.html", tools::run_report(plan, facts, records, planned)));
    const double measured = tools::measured_step_ns(records);
    if (!losses_.empty()) {
      fmt::print(
          "loss {:.4f} -> {:.4f} in {} steps, {:.1f} s, {:.0f} tokens/s, step measured {:.1f} ms, predicted {:.1f} "
          "ms\n",
          losses_.front(), losses_.back(), losses_.size(), seconds_, facts.tokens_per_second, measured / 1e6,
          static_cast<double>(plan.step_ns) / 1e6);
    }
    fmt::print("checkpoint, trace.json (ui.perfetto.dev) and report.html are in {}\n", folder_.string());
    return {};
  }

  // The first step makes what later ones reuse: it is not like them.
  std::optional<tools::HeldMemory> held_memory() const {
    if (losses_.size() < 2) return std::nullopt;
    const uint64_t bytes = tools::MemoryGauge::peak_bytes() - data_bytes_;
    if (worker_) return tools::HeldMemory{worker_->rank, 1, bytes};
    return tools::HeldMemory{0, static_cast<uint32_t>(trainer_->plan().devices.size()), bytes};
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
  std::optional<tools::WorkerEnvironment> worker_;
  std::string command_;
  runtime::TraceRecorder recorder_;
  std::unique_ptr<runtime::Trainer> trainer_;
  std::unique_ptr<runtime::Dataset> data_;
  fs::path folder_;
  std::vector<double> losses_;
  uint64_t first_step_ = 0;
  double seconds_ = 0;
  uint64_t data_bytes_ = 0;  // of the data set's tensors
  std::ofstream log_;
};

Result<void> train(const Flags& flags, const std::vector<std::string>& arguments) {
  if (flags.text.empty() == flags.data.empty()) return rannc::error("give either --text or --data");
  RANNC_ASSIGN(const auto worker, tools::read_worker_environment());
  if (flags.transport == "gloo" && !worker) {
    RANNC_ASSIGN(const runtime::Bundle bundle, runtime::open_bundle(flags.bundle));  // errors once, not per worker
    return tools::launch_workers(tools::own_program(), arguments, static_cast<uint32_t>(bundle.plan.devices.size()),
                                 flags.threads);
  }
  runtime::set_threads(static_cast<int>(flags.threads));
  tools::MemoryGauge::install();
  return Run(flags, flags.transport == "gloo" ? worker : std::nullopt,
             fmt::format("rannc-run {}", fmt::join(arguments, " ")))
      .run();
}

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("bundle", flags.bundle, "bundle written by rannc-compile")->required();
  app.add_option("-o,--output", flags.output,
                 "folder for checkpoints, trace and report (default: the bundle's name with .run)");
  app.add_option("--text", flags.text, "files or folders of text, for next-byte prediction");
  app.add_option("--data", flags.data, ".safetensors file with tensors x/<input> and labels/<name>");
  app.add_option("--steps", flags.steps, "steps in all, those before a resume included")->capture_default_str();
  app.add_option("--transport", flags.transport, "local: threads of this process; gloo: a process per device")
      ->check(CLI::IsMember({"local", "gloo"}))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "threads per worker")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--optimizer", flags.optimizer, "sgd, adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  runtime::OptimizerOptions& optimizer = flags.trainer.optimizer;
  optimizer.learning_rate = 1e-3;
  app.add_option("--learning-rate", optimizer.learning_rate)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--momentum", optimizer.momentum, "of sgd")->capture_default_str();
  app.add_option("--weight-decay", optimizer.weight_decay)->capture_default_str();
  app.add_option("--warmup-steps", optimizer.warmup_steps, "steps over which the learning rate rises")
      ->capture_default_str();
  app.add_option("--decay-steps", optimizer.decay_steps, "step at which it has fallen to a tenth; 0: stays")
      ->capture_default_str();
  app.add_option("--clip-norm", flags.trainer.clip_norm, "largest global norm of the gradient; 0: any")
      ->capture_default_str();
  app.add_option("--seed", flags.trainer.seed, "of data and random operators")->capture_default_str();
  app.add_option("--checkpoint-every", flags.checkpoint_every, "steps between checkpoints; 0: only at the end")
      ->capture_default_str();
  app.add_flag("--resume", flags.resume, "go on from the latest checkpoint in the output folder");
  app.add_flag("--evaluate", flags.evaluate,
               "train nothing: outputs and loss of all samples of --data (with --resume by the latest checkpoint); what "
               "a bundle without a loss gets");
  app.add_option("--timeout", flags.timeout_seconds, "seconds to wait for another worker")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--loss-log", flags.loss_log, "file for a line per step: number and loss as a hexadecimal float");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a bundle, or evaluates it where it has no loss.", "rannc-run");
  Flags flags;
  add_flags(app, flags);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return tools::run_tool(app, argc, argv, [&]() -> Result<void> {
    RANNC_ASSIGN(flags.trainer.optimizer.kind, runtime::parse_optimizer(flags.optimizer));
    return train(flags, arguments);
  });
}
