#include "tools/run/evaluate_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/stopwatch.h"
#include "ir/plan/fixed_samples.h"
#include "runtime/data/sample_file.h"
#include "runtime/train/loss_sums.h"
#include "tools/common/how_to_train.h"
#include "tools/run/output_parts.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

/// Returns the same result in every worker.
Result<void> write_outputs(runtime::Trainer& trainer, const EvaluationRun& run, runtime::Outputs& outputs,
                           uint64_t samples, const std::map<std::string, std::string>& metadata) {
  RANNC_TRY(gather_parts(trainer, outputs, run.folder, run.rank));
  Result<void> own;
  if (run.rank == 0) own = outputs.write((run.folder / kOutputsFile).string(), samples, metadata);
  return trainer.first_failure(own);
}

void say_what_was_done(const runtime::Trainer& trainer, const EvaluationRun& run, const runtime::SampleFile& file,
                       double seconds, std::optional<double> loss, const std::map<std::string, double>& metrics) {
  const bool whole = ir::samples_symbol(trainer.plan().graph).empty() && file.mini_batch() == 1 && file.samples() == 1;
  const uint64_t batches = (file.samples() + file.mini_batch() - 1) / file.mini_batch();
  std::string end = loss ? fmt::format("; loss {:.9g}", *loss) : "";
  for (const auto& [name, number] : metrics) end += fmt::format(", {} {:.9g}", name, number);
  if (whole) {
    fmt::print("evaluated {} as one mini-batch, {:.1f} s{}\n", run.data, seconds, end);
  } else {
    fmt::print("evaluated {} samples of {} in {} mini-batch{} of up to {}, {:.1f} s, {:.0f} samples/s{}\n",
               file.samples(), run.data, batches, batches == 1 ? "" : "es", file.mini_batch(), seconds,
               static_cast<double>(file.samples()) / std::max(seconds, 1e-9), end);
  }
  fmt::print("outputs are in {}\n", (run.folder / kOutputsFile).string());
  if (!trainer.plan().training) {
    fmt::print("{} has no loss, so it was evaluated; {}\n", run.bundle, how_to_train(trainer.plan()));
  } else if (!loss) {
    fmt::print("{} has no labels that count, so there is no loss\n", run.data);
  }
}

}  // namespace

void print_beyond_plan(const std::string& sizes) {
  fmt::print(stderr,
             "warning: sizes exceed those of the plan, so time and memory are above the prediction: {}; rannc-compile "
             "--assume SYMBOL=N plans for others\n",
             sizes);
}

Result<void> evaluate_run(runtime::Trainer& trainer, const EvaluationRun& run) {
  const ir::Plan& plan = trainer.plan();
  RANNC_ASSIGN(const auto file, runtime::SampleFile::open(run.data, plan));
  const uint64_t first_end = std::min(file.samples(), file.mini_batch());
  RANNC_ASSIGN(const auto bound, runtime::bind_evaluation(plan, file.batch(0, first_end)));
  runtime::Outputs outputs(plan, bound.symbols);
  runtime::LossSums losses;
  const Stopwatch watch;
  for (uint64_t first = 0; first < file.samples(); first += file.mini_batch()) {
    const uint64_t last = std::min(first + file.mini_batch(), file.samples());
    RANNC_ASSIGN(const auto result, trainer.evaluate(file.batch(first, last)));
    if (first == 0 && run.rank == 0 && !result.beyond_plan.empty()) print_beyond_plan(result.beyond_plan);
    outputs.add(result, first);
    losses.add(result);
  }
  std::error_code failed;
  fs::create_directories(run.folder, failed);
  if (failed) return error({run.folder.string(), 0, 0, {}}, "cannot be created: " + failed.message());
  const double seconds = watch.seconds();
  RANNC_ASSIGN(const std::optional<double> loss, losses.loss(plan.graph));
  std::map<std::string, std::string> metadata = {{"samples", fmt::format("{}", file.samples())}};
  if (loss) metadata["loss"] = fmt::format("{:a}", *loss);
  RANNC_TRY(write_outputs(trainer, run, outputs, file.samples(), metadata));
  RANNC_ASSIGN(const auto metrics, losses.metrics(plan.graph));
  if (run.rank == 0) say_what_was_done(trainer, run, file, seconds, loss, runtime::scalar_metrics(metrics));
  return {};
}

}  // namespace rannc::tools
