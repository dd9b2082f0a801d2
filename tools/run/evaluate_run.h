/// Evaluates a bundle for rannc-run.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/train/trainer.h"

namespace rannc::tools {

/// Name of the file in the output folder.
inline constexpr const char* kOutputsFile = "outputs.safetensors";

struct EvaluationRun {
  std::string bundle;            ///< path as given by the user
  std::string data;              ///< path of a `runtime::SampleFile`
  std::filesystem::path folder;  ///< created if missing; hosts need not share it
  uint32_t rank = 0;
};

/// Evaluates all samples of the data in file order, one mini-batch at a time; the last one may be smaller. Writes the
/// graph's outputs for all samples, under their names, to `outputs.safetensors` in the folder. The file is written
/// through a temporary file and a rename, so it is either complete or absent. Worker 0 merges the parts of the others
/// and prints a summary to stdout. All workers of a run must call it; an error of one ends all.
Result<void> evaluate_run(runtime::Trainer& trainer, const EvaluationRun& run);

/// Warns that sizes exceed those of the plan (`runtime::StepResult::beyond_plan`).
void print_beyond_plan(const std::string& sizes);

}  // namespace rannc::tools
