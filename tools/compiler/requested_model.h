/// Parses the options of `rannc/compiler/read_options.h`.
#pragma once

#include <string>

#include "frontend/import.h"
#include "passes/manager.h"
#include "passes/pipeline.h"
#include "rannc/compiler/read_options.h"

namespace rannc::tools {

/// A model file with the options that apply to it.
struct RequestedModel {
  std::string path;  ///< of `source`
  frontend::ModelSource source;
  compiler::ReadOptions options;
  frontend::ImportOptions import;    ///< without `whole` and `required`
  passes::PipelineOptions pipeline;  ///< without the facts of the file
  passes::ManagerOptions manager;
};

/// Returns why a pass cannot be skipped; empty if it can.
std::string wrong_to_skip(const std::string& pass);

/// Returns an error if options contradict each other or are out of range. Errors name an option by its flag.
Result<void> check(const compiler::ReadOptions& options);

/// Checks the options for a model file and parses them. Reads no file.
Result<RequestedModel> requested_model(const frontend::ModelSource& source, const compiler::ReadOptions& options);

}  // namespace rannc::tools
