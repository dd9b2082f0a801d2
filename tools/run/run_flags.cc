#include "tools/run/run_flags.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "runtime/engine/engine.h"
#include "runtime/train/loss_scale.h"
#include "runtime/transport/transports.h"
#include "tools/common/hardware.h"
#include "tools/common/libraries.h"
#include "tools/common/number_checks.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

constexpr uint64_t kMostSeconds = 1'000'000;  // what waits counts milliseconds in 31 bits

void add_worker_flags(CLI::App& app, WorkerFlags& flags) {
  auto* rank = app.add_option("--rank", flags.rank,
                              "number of this worker, which runs that device of the plan (default: from torchrun, "
                              "mpirun, mpiexec or srun)")
                   ->transform(whole_number(0, UINT32_MAX));
  auto* world = app.add_option("--world", flags.world, "number of workers: that of the plan's devices")
                    ->transform(whole_number(1, UINT32_MAX));
  app.add_option("--master", flags.master,
                 "HOST:PORT on which worker 0 listens (default: MASTER_ADDR and MASTER_PORT)");
  app.add_flag("--insecure", flags.insecure,
               "let worker 0 listen on an address that other machines reach although RANNC_SECRET is not set");
  rank->needs(world);
  world->needs(rank);
}

CLI::Validator loss_scale_check() {
  const CLI::Validator check(
      [](const std::string& text) {
        const auto scale = parse_number(text, NumberRange{runtime::LossScale::kLeast, runtime::LossScale::kMost});
        int exponent = 0;
        const bool valid = scale && std::frexp(*scale, &exponent) == 0.5;
        return valid ? std::string() : fmt::format("expected a power of two from 1 to 2^60, found '{}'", text);
      },
      "POWER OF TWO");
  return check.name(kRangeCheck);
}

Result<uint64_t> parse_bytes_or_zero(std::string_view text) {
  return text == "0" ? Result<uint64_t>(uint64_t{0}) : parse_bytes(text);
}

/// Completes the flags after parsing. A resumed run may have the samples of its folder.
void end_parsing(const CLI::App& app, RunFlags& flags) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty())
      flags.explicit_flags["--" + option->get_lnames().front()] = option->results();
  }
  if (flags.resume || !flags.source.validate.empty()) return;
  for (const char* flag : {"--validate-every", "--metric"}) {
    if (app.count(flag) > 0) throw CLI::RequiresError(flag, "--validate");
  }
}

}  // namespace

std::string RunFlags::output_folder() const {
  return output.empty() ? std::filesystem::path(bundle).replace_extension(".run").string() : output;
}

RunFolderUse RunFlags::folder_use() const {
  if (resume) return RunFolderUse::kResume;
  return replace ? RunFolderUse::kReplace : RunFolderUse::kNew;
}

void add_run_flags(CLI::App& app, RunFlags& flags) {
  add_worker_flags(app, flags.worker);
  app.add_option("-o,--output", flags.output,
                 "folder for checkpoints, trace and report (default: the bundle's name with .run)");
  add_data_flags(app, flags.source);
  auto* steps = app.add_option("--steps", flags.steps, "total number of steps, including those before a resume")
                    ->transform(whole_number())
                    ->capture_default_str();
  app.add_option("--epochs", flags.epochs, "total number of passes over the samples, instead of --steps")
      ->transform(whole_number(1, uint64_t{1} << 32))
      ->excludes(steps);
  app.add_option("--transport", flags.transport,
                 fmt::format("{} (default: {} if torchrun, mpirun or srun has started several processes, else {})",
                             runtime::transport_summaries(), runtime::default_transport(true).name,
                             runtime::default_transport(false).name))
      ->check(CLI::IsMember(runtime::transport_names()));
  app.add_option("--engine", flags.engine, runtime::engine_summaries())->check(CLI::IsMember(runtime::engine_names()));
  add_device_flag(app, flags.device);
  add_graphs_flag(app, flags.cuda_graphs);
  app.add_option("--matmul-precision", flags.matmul_precision,
                 "of float32 products, convolutions and recurrent layers on GPUs: highest, or high for TF32")
      ->check(CLI::IsMember({"highest", "high"}))
      ->capture_default_str();
  app.add_flag("--deterministic", flags.deterministic,
               "on GPUs, use only kernels whose results have the same bits in every run");
  app.add_option("--threads", flags.threads, "threads per worker")
      ->transform(whole_number(1, 1024))
      ->capture_default_str();
  add_setting_flags(app, flags.settings);
  app.add_option("--loss-scale", flags.loss_scale, "initial loss scale of a bundle of --precision fp16: a power of two")
      ->check(loss_scale_check())
      ->capture_default_str();
  app.add_option("--checkpoint-every", flags.checkpoint_every, "steps between checkpoints; 0: only at the end")
      ->transform(whole_number())
      ->capture_default_str();
  auto* resume = app.add_flag("--resume", flags.resume,
                              "continue from the latest checkpoint in the output folder, with the settings of its run "
                              "unless flags override them");
  app.add_flag("--replace", flags.replace, "remove a previous run in the output folder")->excludes(resume);
  app.add_flag("--evaluate", flags.evaluate,
               "compute outputs and loss of all samples of --data without training (with --resume, from the latest "
               "checkpoint); implied for a bundle without a loss");
  auto* restarts = app.add_option("--max-restarts", flags.max_restarts,
                                  "how often to start all workers again, from the latest checkpoint, after one was "
                                  "killed or crashed; for workers that rannc-run starts")
                       ->transform(whole_number(0, UINT32_MAX))
                       ->capture_default_str();
  app.add_flag("--profile", flags.profile,
               "report where the time of a step goes, by kind of work and by task of the model; also written to "
               "report.html and profile.json")
      ->excludes(restarts);
  app.add_flag("--explain-step", flags.explain_step,
               "report planned beside measured times: by device, stage and action; also written to actions.tsv");
  app.add_flag("--find-nonfinite", flags.find_nonfinite,
               "if a step makes NaN or infinite numbers, name the task that made the first ones; examines all results, "
               "by engine explicit");
  app.add_option("--timeout", flags.timeout_seconds,
                 "seconds to wait for another worker, and to work without progress (default: 60, or ten predicted "
                 "steps if that is longer)")
      ->transform(whole_number(1, kMostSeconds));
  app.add_option("--bucket", flags.bucket_bytes,
                 "size of gradients that replicas sum in one call, such as 8MiB, but at most that of the largest "
                 "gradient; 0: one gradient at a time (default: 4MiB)")
      ->transform(parsed_by(&parse_bytes_or_zero, "SIZE"));
  app.add_flag(
      "--late-recompute", flags.late_recompute,
      "repeat forward work only after the gradient of a backward pass has arrived, to measure what the overlap "
      "is worth");
  app.add_option(
      "--loss-log", flags.loss_log,
      "additional file with the contents of losses.txt in the output folder: a line per step with its number and its "
      "loss as a hexadecimal float");
  app.add_option("--log", flags.log,
                 "file for a JSON object per step: loss, learning rate, speed, gradient norm, validation");
  app.add_option("--tensorboard", flags.tensorboard, "folder for the same measurements as TensorBoard events");
  add_weight_flags(app, flags.weights);
  add_library_flag(app, flags.libraries);
  app.parse_complete_callback([&app, &flags] { end_parsing(app, flags); });
}

}  // namespace rannc::tools
