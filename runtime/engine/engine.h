/// The table of engines, which run the programs of stages.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "runtime/device/device.h"
#include "runtime/engine/load_options.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

/// One engine. To add one, add a row in `engine.cc`.
struct Engine {
  std::string_view name;
  std::string_view summary;  ///< one phrase, for `--help`
  /// Loads the program and the weights of a stage of an open bundle. Its values lie in the memory of `device`, which
  /// outlives it, and belong to the compute stream, on which the calling thread is.
  Result<std::unique_ptr<Program>> (*load)(const Bundle& bundle, StageId stage, const LoadOptions& options,
                                           Device& device) = nullptr;
};

/// Returns all rows. The first is the default.
std::span<const Engine> engines();

/// Returns the names of all rows.
std::vector<std::string> engine_names();

/// `explicit: ...; ...`, for `--help`.
std::string engine_summaries();

/// Returns the row named `name`, or the default if `name` is empty. The error for an unknown name lists all names.
Result<const Engine*> find_engine(std::string_view name);

/// Returns the engine of that name. If it is empty, the default of the bundle on the device: `native` if the bundle has
/// compiled stages for it.
Result<const Engine*> engine_for(const Bundle& bundle, const Device& device, std::string_view name = {});

}  // namespace rannc::runtime
