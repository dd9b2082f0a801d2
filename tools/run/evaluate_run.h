/// What rannc-run does with a bundle that it is not to train.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/train/trainer.h"

namespace rannc::tools {

/// The file in the output folder.
inline constexpr const char* kOutputsFile = "outputs.safetensors";

struct EvaluationRun {
  std::string bundle;            ///< as the user calls it
  std::string data;              ///< of `runtime::SampleFile`
  std::filesystem::path folder;  ///< is made where it is not there; of several workers the same
  uint32_t rank = 0, workers = 1;
};

/// Evaluates all samples of the data in file order, a mini-batch at a time, the last one smaller where samples are
/// left, and writes the graph's outputs over all of them, under their names, as `outputs.safetensors` in the folder: by
/// a temporary file and a rename, so that it is whole or absent. Worker 0 puts together what the others wrote beside
/// it, and says on stdout what was done. All workers of a run call it; an error of one ends all.
Result<void> evaluate_run(runtime::Trainer& trainer, const EvaluationRun& run);

}  // namespace rannc::tools
